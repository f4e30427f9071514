// The TypeScript SDK on its own stdin and stdout; says on stderr how many nanoseconds an update took.
//
//     node typescript.mjs SDK client WARM_UP UPDATES     counts what comes
//     node typescript.mjs SDK agent WARM_UP UPDATES LINE  sends the update of that line, made anew and awaited each time
//
// SDK is the directory of the installed package.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [directory, side, warmUp, updates] = [process.argv[2], process.argv[3], +process.argv[4], +process.argv[5]];
const entry = JSON.parse(readFileSync(join(directory, "package.json"))).exports["./experimental/v2"].import;
const acp = await import(pathToFileURL(join(directory, entry)));
const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const info = { name: "bench", version: "1" };

function finish(start) {
  console.error((performance.now() - start) * 1e6 / updates);
  process.exit(0);
}

if (side === "client") {
  let count = 0;
  let start = 0;
  const connection = acp
    .client({ name: "bench" })
    .onNotification(acp.methods.client.session.update, () => {
      count += 1;
      if (count === warmUp) start = performance.now();
      else if (count === warmUp + updates) finish(start);
    })
    .connect(stream);
  await connection.agent.request(acp.methods.agent.initialize, { protocolVersion: 2, info });
} else {
  const connection = acp
    .agent({ name: "bench" })
    .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: 2, info }))
    .connect(stream);
  await connection.initialized;
  const { sessionId, update } = JSON.parse(process.argv[6]).params;
  const { messageId, content: { text } } = update;
  let start = 0;
  for (let number = -warmUp; number < updates; number += 1) {
    if (number === 0) start = performance.now();
    await connection.client.notify(acp.methods.client.session.update, {
      sessionId,
      update: { sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text } },
    });
  }
  finish(start);
}

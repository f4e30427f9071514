// The TypeScript SDK's v2 client, driving an agent; prints what its handlers got and what its requests came to.
//
//     node typescript.mjs SDK COMMAND ARGUMENTS...
//
// SDK is the directory of the installed package; the rest starts the agent.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [directory, command, ...rest] = process.argv.slice(2);
const entry = JSON.parse(readFileSync(join(directory, "package.json"))).exports["./experimental/v2/unstable"].import;
const acp = await import(pathToFileURL(join(directory, entry)));
const agent = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const { client: calls, agent: methods } = acp.methods;

const say = (what, value) => process.stdout.write(JSON.stringify([what, value]) + "\n");
const heard = [];
const waiting = [];
let decide = "allow_once";

function until(isIt) {
  const found = heard.find(isIt);
  if (found !== undefined) {
    heard.splice(0, heard.indexOf(found) + 1);
    return found;
  }
  return new Promise((resolve) => waiting.push({ isIt, resolve }));
}

function hear(event) {
  const index = waiting.findIndex(({ isIt }) => isIt(event));
  if (index < 0) {
    heard.push(event);
    return;
  }
  heard.length = 0;
  waiting.splice(index, 1)[0].resolve(event);
}

const connection = acp
  .client({ name: "typescript" })
  .onNotification(calls.session.update, ({ params }) => {
    say("update", params);
    hear(params);
  })
  .onRequest(calls.session.requestPermission, ({ params, signal }) => {
    say("permission", params);
    hear({ permission: params });
    if (decide !== "wait") return { outcome: { outcome: "selected", optionId: decide } };
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        say("taken back", params.title);
        resolve({ outcome: { outcome: "cancelled" } });
      });
    });
  })
  .onRequest(calls.elicitation.create, ({ params }) => {
    say("elicitation", params);
    return { action: "accept", content: { name: "Ada" } };
  })
  .connect(stream);

const request = async (method, params) => {
  try {
    return await connection.agent.request(method, params);
  } catch (error) {
    return { code: error.code, message: error.message };
  }
};
const ask = async (what, method, params) => say(what, await request(method, params));
const idle = (sessionId) =>
  until((one) => one.sessionId === sessionId && one.update?.sessionUpdate === "state_update" && one.update.state === "idle");
const prompt = (sessionId, text) => request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

await ask("initialize", methods.initialize, {
  protocolVersion: 2,
  info: { name: "typescript", version: "1" },
  capabilities: { elicitation: { form: {} } },
});
const made = await request(methods.session.new, { cwd: "/project" });
say("new", made);
const { sessionId } = made;
for (const text of ["say everything", "hello", "fail"]) {
  heard.length = 0;
  say("prompt", await prompt(sessionId, text));
  await idle(sessionId);
}
heard.length = 0;
await prompt(sessionId, "cancel the call");
await until((one) => one.update?.toolCallId === "slow" && one.update.status === "in_progress");
await ask("cancel call", methods.toolCall.cancel, { sessionId, toolCallId: "slow" });
await idle(sessionId);
heard.length = 0;
decide = "wait";
await prompt(sessionId, "ask and wait");
const held = prompt(sessionId, "never inserted");
await until((one) => one.permission !== undefined);
await connection.agent.notify(methods.session.cancel, { sessionId });
await idle(sessionId);
say("held", await held);
await ask("option", methods.session.setConfigOption, { sessionId, configId: "model", type: "id", value: "large" });
say("replay", null);
await ask("resume", methods.session.resume, { sessionId, cwd: "/project", replayFrom: { type: "start" } });
await ask("list", methods.session.list, { cwd: "/project" });
await ask("close", methods.session.close, { sessionId });
await ask("list", methods.session.list, {});
await ask("gone", methods.session.prompt, { sessionId, prompt: [{ type: "text", text: "x" }] });
agent.stdin.end();
const code = await new Promise((resolve) => agent.on("exit", resolve));
say("exit", code);
process.exit(0);

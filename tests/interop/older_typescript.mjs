// An agent of version 1 of the protocol, on the TypeScript SDK.
//
//     node older_typescript.mjs SDK
//
// SDK is the directory of the installed package.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const directory = process.argv[2];
const entry = JSON.parse(readFileSync(join(directory, "package.json"))).exports["."].import;
const acp = await import(pathToFileURL(join(directory, entry)));
acp
  .agent({ name: "older" })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

// An agent that the TypeScript SDK's v2 runs: follows a story, and writes down what it got and what it gave its SDK.
//
//     node agent_typescript.mjs SDK STORY RECORD
//
// SDK is the directory of the installed package, STORY a file as `story.py` describes it. RECORD gets a line for
// everything, once the input has ended.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setImmediate as breathe } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [directory, storyFile, recordFile] = process.argv.slice(2);
const entry = JSON.parse(readFileSync(join(directory, "package.json"))).exports["./experimental/v2/unstable"].import;
const acp = await import(pathToFileURL(join(directory, entry)));
const { client: calls, agent: methods } = acp.methods;
const story = JSON.parse(readFileSync(storyFile));

const record = [];
const note = (what, value) => record.push(JSON.stringify([what, value]) + "\n");
const sessions = new Map();
const latch = () => {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
};

const seen = latch();

async function tell(sessionId, update) {
  note("update", { sessionId, update });
  sessions.get(sessionId)?.history.push(update);
  await connection.client.notify(calls.session.update, { sessionId, update });
}

// What a request of the agent came to, or its error.
async function outcome(what, asked) {
  try {
    note(what, await asked);
  } catch (error) {
    note(what, { code: error.code, data: error.data });
  }
}

function ask(sessionId, request, options, what = "permission") {
  const { toolCall } = request.subject ?? {};
  if (toolCall) sessions.get(sessionId)?.history.push({ sessionUpdate: "tool_call_update", ...toolCall });
  const params = { ...request, sessionId };
  note("asks", params);
  return outcome(what, connection.client.request(calls.session.requestPermission, params, options));
}

function elicit(params) {
  note("elicits", params);
  return outcome("elicitation", connection.client.request(calls.elicitation.create, params));
}

const numbered = (update, number) => ({ ...update, content: { ...update.content, text: `${number} ` } });

// Each step, for a work: its session, its prompt, the id of its message, how to answer, and when it is cancelled.
const steps = {
  insert: ({ session, prompt, messageId }) =>
    tell(session.id, { sessionUpdate: "user_message", messageId, content: prompt }),
  answer: ({ answer, messageId }) => answer.open({ messageId }),
  refuse: ({ answer }, { code, message, data }) => answer.open(Promise.reject(new acp.RequestError(code, message, data))),
  hold: async ({ answer, cancel, messageId }) => {
    await cancel.opened;
    note("held", messageId);
    answer.open(Promise.reject(acp.RequestError.requestCancelled()));
  },
  update: ({ session }, update, of) => tell(of ?? session.id, update),
  count: async ({ session }, count, update) => {
    for (let number = 0; number < count; number += 1) await tell(session.id, numbered(update, number));
  },
  endless: async ({ session, cancel }, update) => {
    let isOver = false;
    void cancel.opened.then(() => (isOver = true));
    for (let number = 0; !isOver; number += 1) {
      await tell(session.id, numbered(update, number));
      await breathe();
    }
  },
  wait: async (work) => {
    await work.cancel.opened;
    work.cancel = latch();
  },
  ask: ({ session }, request, of) => ask(of ?? session.id, request),
  withdraw: ({ session }, request) => {
    const taken = new AbortController();
    void seen.opened.then(() => taken.abort());
    return ask(session.id, request, { cancellationSignal: taken.signal }, "withdrawn");
  },
  elicit: ({ session }, request) => elicit({ ...request, sessionId: session.id }),
  inquire: ({ requestId }, request) => elicit({ ...request, requestId }),
  complete: (_, elicitationId) => connection.client.notify(calls.elicitation.complete, { elicitationId }),
  notify: (_, method, params) => connection.client.notify(method, params),
  request: (_, method, params) => outcome("request", connection.client.request(method, params)),
};

async function follow(work, todo) {
  const { works } = work.session;
  works.add(work);
  try {
    for (const [step, ...rest] of todo) await steps[step](work, ...rest);
  } catch (error) {
    console.error(error);
    process.exit(1);
  } finally {
    works.delete(work);
  }
}

// A session that did not exist before.
function made(cwd) {
  const session = { id: `s${(made.number = (made.number ?? 0) + 1)}`, cwd, isOpen: true, history: [], works: new Set(), told: 0 };
  sessions.set(session.id, session);
  return session;
}

function open(sessionId) {
  const session = sessions.get(sessionId);
  if (session?.isOpen) return session;
  throw acp.RequestError.sessionNotFound(sessionId);
}

function cancel(session) {
  for (const work of session.works) work.cancel.open();
}

// The history once more, each thing emptied before it is told again, for who has it already.
async function replay(session) {
  const emptied = new Set();
  for (const update of session.history.splice(0)) {
    if (story.live.includes(update.sessionUpdate)) continue;
    const [member, empty] = story.empty[update.sessionUpdate] ?? [];
    const key = empty && `${empty.sessionUpdate} ${update[member]}`;
    if (empty && !emptied.has(key)) await tell(session.id, { ...empty, [member]: update[member] });
    emptied.add(key);
    await tell(session.id, update);
  }
}

const noted = (handler) => (context) => {
  note(context.method, context.params);
  return handler(context);
};

const app = acp.agent({ name: "story" });
for (const [method, answer] of Object.entries(story.answers)) app.onRequest(method, noted(() => answer));
const connection = app
  .onRequest(methods.initialize, noted(() => ({ ...story.initialize, capabilities: story.more })))
  .onRequest(methods.auth.login, noted(() => ({})))
  .onRequest(methods.auth.logout, noted(() => ({})))
  .onRequest(methods.session.new, noted(async ({ params }) => {
    const session = made(params.cwd);
    await follow({ session }, story.early);
    return { sessionId: session.id, ...story.setup };
  }))
  .onRequest(methods.session.list, noted(({ params }) => {
    const found = [...sessions.values()].map(({ id, cwd }) => ({ sessionId: id, cwd, title: `Session ${id}` }));
    return params.cursor === "" ? { sessions: found.slice(1) } : { sessions: found.slice(0, 1), nextCursor: "" };
  }))
  .onRequest(methods.session.resume, noted(async ({ params }) => {
    const session = sessions.get(params.sessionId);
    if (!session) throw acp.RequestError.sessionNotFound(params.sessionId);
    session.isOpen = true;
    if (params.replayFrom) await replay(session);
    await tell(session.id, { sessionUpdate: "state_update", state: "idle" });
    return story.setup;
  }))
  .onRequest(methods.session.setConfigOption, noted(({ params }) => {
    open(params.sessionId);
    return { configOptions: story.setup.configOptions.map((one) => ({ ...one, currentValue: params.value })) };
  }))
  .onRequest(methods.session.close, noted(async ({ params }) => {
    const session = open(params.sessionId);
    session.isOpen = false;
    cancel(session);
    await Promise.all([...session.works].map((work) => work.followed));
    return {};
  }))
  .onRequest(methods.session.fork, noted(({ params }) => ({ sessionId: made(params.cwd).id })))
  .onRequest(methods.toolCall.cancel, noted(({ params }) => cancel(open(params.sessionId)) ?? {}))
  .onRequest(methods.terminal.cancel, noted(({ params }) => cancel(open(params.sessionId)) ?? {}))
  .onRequest(methods.session.delete, noted(({ params }) => {
    sessions.delete(params.sessionId);
    return {};
  }))
  .onRequest(methods.session.prompt, noted(({ params, signal, requestId }) => {
    const session = open(params.sessionId);
    const [answer, cancel] = [latch(), latch()];
    const messageId = `u${(session.told += 1)}`;
    signal.addEventListener("abort", () => cancel.open());
    const work = { session, requestId, prompt: params.prompt, messageId, answer, cancel };
    work.followed = follow(work, story.prompts[params.prompt[0].text] ?? story.prompts.other);
    return answer.opened;
  }))
  .onNotification(methods.session.cancel, noted(({ params }) => cancel(open(params.sessionId))))
  .onRequest("_story/echo", (params) => params, noted(({ params }) => params))
  .onNotification("_story/told", (params) => params, noted(() => seen.open()))
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
writeFileSync(recordFile, record.join(""));

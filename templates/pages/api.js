// Calls the API. A token is kept until the tab is closed, and sent in a header, so no other page can use it.

const KEY = "optloop-token";
const PAUSE_MS = 1000;

/** What the service answered instead of what was wanted. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export const setToken = (token) => sessionStorage.setItem(KEY, token);
export const dropToken = () => sessionStorage.removeItem(KEY);

async function send(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(`/api/v1${path}`, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const sentence = [said.error ?? `the service answered ${response.status}`, said.hint].filter(Boolean).join(": ");
  throw new Refusal(response.status, sentence);
}

/** Reads an answer in JSON. */
export const get = async (path, signal) => (await send(path, { signal })).json();

/** Reads an answer as text. */
export const text = async (path, signal) => (await send(path, { signal })).text();

/** Changes something. */
export async function post(path, body = {}, headers = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) };
  return (await send(path, options)).json();
}

/** Saves a text as a file. */
export function save(name, contents, type) {
  const address = URL.createObjectURL(new Blob([contents], { type }));
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), PAUSE_MS);
}

/**
 * Follows the events of a submission until `signal` is aborted or the submission has ended. After a gap, it goes on behind
 * the last event. Calls `on.event(type, data)`, `on.connected()` and `on.disconnected()`.
 */
export async function follow(id, on, signal) {
  let last = null;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last !== null && { "Last-Event-ID": last }) };
      const response = await send(`/submissions/${id}/events`, { headers, signal });
      on.connected();
      for await (const { type, id: number, data } of events(response.body)) {
        if (number !== null) last = number;
        on.event(type, JSON.parse(data));
        if (type === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && error.status < 500 && error.status !== 429) throw error;
    }
    if (signal.aborted) return;
    on.disconnected();
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

/** Splits a stream into events, as the HTML standard defines it. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const event = { type: "message", id: null, data: "" };
      for (const line of block.split("\n")) {
        const [, name, rest] = /^(\w*): ?(.*)$/.exec(line) ?? [];
        if (name === "event") event.type = rest;
        if (name === "id") event.id = rest;
        if (name === "data") event.data += (event.data && "\n") + rest;
      }
      if (event.data) yield event;
    }
  }
}

import { request as httpRequest, type IncomingMessage } from "node:http";
import { type Backend, type BackendOptions, startBackend } from "../../../../scripts/backend/server.ts";
import { systemClock } from "../../../../scripts/backend/system-clock.ts";
import { createTextEngine } from "../../../../scripts/backend/text-model.ts";

const started: Backend[] = [];

/** A backend on a free loopback port with the text engine; `closeBackends` closes it. */
export async function textBackend(options: Partial<BackendOptions> = {}): Promise<Backend> {
  const backend = await startBackend({
    host: "127.0.0.1",
    port: 0,
    engine: createTextEngine(),
    modelIds: ["tiny"],
    clock: systemClock,
    random: () => 0.5,
    ...options,
  });
  started.push(backend);
  return backend;
}

/** Closes every backend that the test started. */
export async function closeBackends(): Promise<void> {
  await Promise.all(started.splice(0).map((backend) => backend.close()));
}

/** A chat request's body with one user message. */
export function chat(fields: object = {}, content = "What is a slot?"): object {
  return { model: "tiny", messages: [{ role: "user", content }], ...fields };
}

/** Posts JSON and returns the response. */
export async function post(
  backend: Backend,
  path: string,
  body: object | string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${backend.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

/** The JSON that a response holds, with the shape that the test expects. */
export async function jsonOf<T>(response: Response): Promise<T> {
  return (await response.json()) as T;
}

/** Posts JSON over a connection of its own and returns the response as soon as its headers are there; nothing of its body is read. */
export async function postUnread(backend: Backend, path: string, body: object): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = httpRequest(`${backend.url}${path}`, { method: "POST", agent: false }, resolve);
  request.on("error", reject);
  request.end(JSON.stringify(body));
  return promise;
}

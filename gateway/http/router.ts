import { T4tError } from "../../protocol/errors.ts";

/** What a path means. `id` is decoded. */
export type Route =
  | { readonly name: "chat" | "completions" | "models" | "jobs" | "healthz" | "readyz" | "metrics" }
  | { readonly name: "model" | "job" | "jobEvents" | "jobCancel"; readonly id: string };

export type RouteName = Route["name"];

const methods: Readonly<Record<RouteName, readonly string[]>> = {
  chat: ["POST"],
  completions: ["POST"],
  models: ["GET", "HEAD"],
  model: ["GET", "HEAD"],
  jobs: ["GET", "POST"],
  job: ["GET"],
  jobEvents: ["GET"],
  jobCancel: ["POST"],
  healthz: ["GET", "HEAD"],
  readyz: ["GET", "HEAD"],
  metrics: ["GET"],
};

const fixed: ReadonlyMap<string, Route> = new Map([
  ["/v1/chat/completions", { name: "chat" }],
  ["/v1/completions", { name: "completions" }],
  ["/v1/models", { name: "models" }],
  ["/v1/jobs", { name: "jobs" }],
  ["/healthz", { name: "healthz" }],
  ["/readyz", { name: "readyz" }],
  ["/metrics", { name: "metrics" }],
]);

/** Finds the route of a request target. Throws `unknown_url` or `method_not_allowed`. */
export function routeOf(method: string, target: string): Route {
  const path = pathOf(target);
  const route = routeOfPath(path);
  if (route === undefined) throw unknownUrl(method, path);
  if (!methods[route.name].includes(method)) {
    throw new T4tError(
      "method_not_allowed",
      `Not allowed to ${printable(method)} on ${printable(path)} (HINT: use ${methods[route.name].join(" or ")}).`,
    );
  }
  return route;
}

/** Methods that a request target answers, for the `Allow` header. */
export function allowedMethods(target: string): string {
  const route = routeOfPath(pathOf(target));
  return route === undefined ? "" : methods[route.name].join(", ");
}

function pathOf(target: string): string {
  return target.split("?", 1)[0] ?? "";
}

function routeOfPath(path: string): Route | undefined {
  return fixed.get(path) ?? fixed.get(path.replace(/\/$/, "")) ?? routeWithId(path);
}

function routeWithId(path: string): Route | undefined {
  if (path.startsWith("/v1/models/")) {
    // Model ids contain slashes, raw and as %2F.
    const id = decode(path.slice("/v1/models/".length));
    return id === undefined || id === "" ? undefined : { name: "model", id };
  }
  const job = /^\/v1\/jobs\/([^/]+)(\/events|\/cancel)?\/?$/.exec(path);
  const id = job?.[1] === undefined ? undefined : decode(job[1]);
  if (id === undefined || id === "") return undefined;
  if (job?.[2] === "/events") return { name: "jobEvents", id };
  return job?.[2] === "/cancel" ? { name: "jobCancel", id } : { name: "job", id };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function unknownUrl(method: string, path: string): T4tError {
  return new T4tError("unknown_url", `Unknown request URL: ${printable(method)} ${printable(path)}.`);
}

function printable(text: string): string {
  return text.replaceAll(/[^\x21-\x7e]/g, "?").slice(0, 200);
}

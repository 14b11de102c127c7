import type { IncomingHttpHeaders } from "node:http";
import { T4tError } from "../../protocol/errors.ts";
import { type ProgressMode, progressModes } from "../../protocol/progress.ts";

/** What a client asks for by headers. */
export interface RequestWishes {
  readonly progress: ProgressMode;
  /** Name of a strategy, not yet checked against the allowed ones. */
  readonly strategy: string | undefined;
  readonly affinityKey: string | undefined;
  /** Say why a provider was chosen. */
  readonly debug: boolean;
  /** The SDK's own time limit, ms. */
  readonly timeoutMs: number | undefined;
}

const maxAffinityLength = 512;

/** Reads our own request headers and those of the SDKs. Throws `invalid_value` naming the header. */
export function readWishes(headers: IncomingHttpHeaders): RequestWishes {
  const affinityKey = one(headers["x-t4t-affinity-key"]);
  if (affinityKey !== undefined && affinityKey.length > maxAffinityLength) {
    throw new T4tError("invalid_value", `'x-t4t-affinity-key' must have at most ${maxAffinityLength} characters.`, {
      param: "x-t4t-affinity-key",
    });
  }
  return {
    progress: progressMode(one(headers["x-t4t-progress"])),
    strategy: one(headers["x-t4t-routing"])?.toLowerCase(),
    affinityKey,
    debug: isDebug(one(headers["x-t4t-debug"])),
    timeoutMs: stainlessTimeout(one(headers["x-stainless-timeout"])),
  };
}

function progressMode(text: string | undefined): ProgressMode {
  if (text === undefined) return "comment";
  const mode = progressModes.find((known) => known === text.toLowerCase());
  if (mode !== undefined) return mode;
  throw new T4tError("invalid_value", `'x-t4t-progress' must be one of ${progressModes.join(", ")}.`, {
    param: "x-t4t-progress",
  });
}

function isDebug(text: string | undefined): boolean {
  const word = text?.toLowerCase();
  if (word === undefined || word === "false") return false;
  if (word === "true") return true;
  throw new T4tError("invalid_value", "'x-t4t-debug' must be true or false.", { param: "x-t4t-debug" });
}

/** An SDK that says something odd here is not at fault for it: no limit then. */
function stainlessTimeout(text: string | undefined): number | undefined {
  const seconds = Number(text);
  return text !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

function one(value: string | readonly string[] | undefined): string | undefined {
  const text = typeof value === "string" ? value.trim() : undefined;
  return text === "" ? undefined : text;
}

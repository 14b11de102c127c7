import { BaseError, type Hex, isHex } from "viem";

/** The node could not be asked: unreachable, overloaded, or not answering in time. Says nothing about the call itself. */
export class ChainUnavailableError extends BaseError {
  override readonly name = "ChainUnavailableError";
  /** JSON-RPC method that was tried. */
  readonly method: string;
  /** How often it was tried. */
  readonly attempts: number;

  constructor(host: string, method: string, attempts: number, cause: Error) {
    super(
      `the chain's RPC at ${host} did not answer ${method} (${attempts === 1 ? "one attempt" : `${attempts} attempts`})`,
      {
        cause,
        details: describeFailure(cause),
      },
    );
    this.method = method;
    this.attempts = attempts;
  }
}

/** A failed attempt to reach the node; `retryable` is false where asking again cannot help (a refused API key). */
export class RpcTransportError extends Error {
  override readonly name = "RpcTransportError";
  readonly status: number | undefined;
  readonly retryable: boolean;

  constructor(message: string, options: { readonly status?: number; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = options.status;
    this.retryable =
      options.status === undefined || options.status === 408 || options.status === 429 || options.status >= 500;
  }
}

/** JSON-RPC codes that mean "not now": limit exceeded, resource unavailable, and HTTP's 429 used as a code. */
const busyCodes: ReadonlySet<unknown> = new Set([-32005, -32002, 429]);

/** What a failed call means for asking again. Pure. */
export function failureKind(error: unknown): "unreachable" | "busy" | "answer" {
  for (const link of causes(error)) {
    if (link instanceof RpcTransportError) return "unreachable";
    if ("code" in link && busyCodes.has(link.code)) return "busy";
  }
  return "answer";
}

/** The `ChainUnavailableError` behind an error, through whatever wrapped it. */
export function chainUnavailableIn(error: unknown): ChainUnavailableError | undefined {
  for (const link of causes(error)) if (link instanceof ChainUnavailableError) return link;
  return undefined;
}

/** Whether the node was asked and answered with an error, or with what cannot be read: not a fault of our own, as of the journal. */
export function isNodeAnswer(error: unknown): boolean {
  return error instanceof BaseError && chainUnavailableIn(error) === undefined;
}

/** JSON-RPC code of a fault inside the node. */
const internalErrorCode = -32_603;

/** Whether the node says that it failed itself: not whether it did what it was asked for. */
export function isInternalError(error: unknown): boolean {
  for (const link of causes(error)) if ("code" in link && link.code === internalErrorCode) return true;
  return false;
}

/** Revert data that a node put into its error, wherever it put it; undefined when there is none, `0x` for a bare revert. */
export function revertDataIn(error: unknown): Hex | undefined {
  for (const link of causes(error)) {
    if (!("data" in link)) continue;
    const { data } = link;
    if (isHex(data)) return data;
    if (typeof data === "object" && data !== null && "data" in data && isHex(data.data)) return data.data;
  }
  return undefined;
}

/** The node's own words, without addresses of the request or versions of libraries. */
export function nodeMessage(error: unknown): string {
  let words = error instanceof Error ? error.message : String(error);
  for (const link of causes(error)) {
    if (link instanceof ChainUnavailableError) return link.shortMessage;
    if (link instanceof BaseError) words = link.details === "" ? link.shortMessage : link.details;
    else words = link.message;
  }
  return words.split("\n", 1)[0] ?? "";
}

/** Whether the node executed the call and it reverted, as far as its error tells. */
export function looksReverted(error: unknown): boolean {
  if (revertDataIn(error) !== undefined) return true;
  for (const link of causes(error)) if ("code" in link && link.code === 3) return true;
  return /revert/i.test(nodeMessage(error));
}

function* causes(error: unknown): Generator<Error> {
  let link = error;
  // Bounded: nobody promises that causes make no circle.
  for (let depth = 0; depth < 12 && link instanceof Error; depth += 1) {
    yield link;
    link = link.cause;
  }
}

function describeFailure(cause: Error): string {
  const root = [...causes(cause)].at(-1) ?? cause;
  return "code" in root && typeof root.code === "string" ? `${root.message} (${root.code})` : root.message;
}

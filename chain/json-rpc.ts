import { RpcRequestError } from "viem";
import { RpcTransportError } from "./rpc-errors.ts";

/** One call as it goes over the wire. */
export interface RpcCall {
  readonly jsonrpc: "2.0";
  readonly id: number;
  readonly method: string;
  readonly params: unknown;
}

/** A JSON-RPC answer: one of `result` and `error`. */
export interface RpcAnswer {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown } | null;
}

/** The answer in a text; undefined when it is none. */
export function parseAnswer(text: string): RpcAnswer | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) return undefined;
  return "result" in json || "error" in json ? (json as RpcAnswer) : undefined;
}

/**
 * The result of an answer.
 *
 * @throws RpcRequestError with the node's code, message and data; RpcTransportError when there is no answer.
 */
export function resultOf(answer: RpcAnswer | undefined, call: RpcCall, host: string): unknown {
  if (answer === undefined) throw new RpcTransportError("the answer is not JSON-RPC");
  const { error, result } = answer;
  if (error === undefined || error === null) return result;
  throw new RpcRequestError({ body: { method: call.method }, error: { ...error }, url: host });
}

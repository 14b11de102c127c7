import type { IncomingHttpHeaders } from "node:http";
import type { Hex } from "viem";
import { decodeAuthorization, wireHeaders } from "../../protocol/wire.ts";
import { ProviderError } from "../errors.ts";

/** What a gateway says of its request in headers. */
export interface JobHeaders {
  readonly jobId: Hex;
  /** Unix seconds. */
  readonly expiresAt: number;
  readonly signature: Hex;
  /** Block in which the post was mined, where the gateway says it. */
  readonly blockNumber: bigint | undefined;
}

/** Reads the job headers. Throws `ProviderError` when one is absent or malformed. */
export function readJobHeaders(headers: IncomingHttpHeaders): JobHeaders {
  const jobId = headers[wireHeaders.jobId];
  if (typeof jobId !== "string" || !isJobId(jobId)) {
    throw new ProviderError("invalid_request", `${wireHeaders.jobId} must be a job id: 0x and 64 hexadecimal digits`);
  }
  const text = headers[wireHeaders.authorization];
  const authorization = decodeAuthorization(typeof text === "string" ? text : undefined);
  if (authorization === undefined) {
    throw new ProviderError("invalid_authorization", `${wireHeaders.authorization} is missing or malformed`);
  }
  const block = headers[wireHeaders.blockNumber];
  if (block !== undefined && (typeof block !== "string" || !/^\d{1,18}$/.test(block))) {
    throw new ProviderError("invalid_request", `${wireHeaders.blockNumber} must be a block number`);
  }
  return {
    jobId: jobId.toLowerCase() as Hex,
    ...authorization,
    blockNumber: block === undefined ? undefined : BigInt(block),
  };
}

/** Whether a text is a 32-byte id in hexadecimal. */
export function isJobId(text: string): text is Hex {
  return /^0x[0-9a-fA-F]{64}$/.test(text);
}

/** A request id for logs and the backend: the gateway's own when it is short and printable. */
export function requestIdOf(headers: IncomingHttpHeaders, mint: () => string): string {
  const given = headers[wireHeaders.requestId];
  return typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given) ? given : mint();
}

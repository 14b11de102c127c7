import { type Hex, isHex } from "viem";
import { decodeDelivered, encodeDelivered, providerErrorCodeOf, type UsageStatementWire } from "../../protocol/wire.ts";
import { isObject } from "../openai/field-types.ts";
import type { ProviderConnections } from "../upstream/connections.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import { exchangeShort } from "../upstream/fetch-json.ts";
import type { SignedUsage } from "./job-document.ts";

/** What a provider says of one of our jobs. */
export interface ProviderJobState {
  /** The provider's own word for the stage; bounded in length. */
  readonly status: string;
  /** Its consent as it gives it; not checked. */
  readonly acknowledgement: Hex | undefined;
  readonly statement: UsageStatementWire | undefined;
}

/** What became of handing over a receipt. */
export type ReceiptOutcome =
  | { readonly kind: "taken" }
  /** The provider has it, but states more usage than we signed. */
  | { readonly kind: "disputed" }
  /** The provider does not take it now: still streaming, its journal lost, the wrong node. Only the chain says that a job is over. */
  | { readonly kind: "refused" }
  /** Nobody who speaks our protocol answered: an outage, or what stands before the provider. */
  | { readonly kind: "unreachable" };

/** The side talks with a provider about a job: its state, its receipt. */
export class ProviderDesk {
  readonly #connections: ProviderConnections;
  readonly #allowPrivate: boolean;
  readonly #timeoutMs: number;

  constructor(options: {
    readonly connections: ProviderConnections;
    readonly allowPrivate: boolean;
    readonly timeoutMs: number;
  }) {
    this.#connections = options.connections;
    this.#allowPrivate = options.allowPrivate;
    this.#timeoutMs = options.timeoutMs;
  }

  /**
   * Asks for the state of a job; undefined when the provider cannot be asked or does not know it.
   * @param patienceMs Bound of this question where it is shorter than the desk's own.
   */
  async stateOf(endpointText: string, jobId: Hex, patienceMs = this.#timeoutMs): Promise<ProviderJobState | undefined> {
    const endpoint = parseEndpoint(endpointText, this.#allowPrivate);
    if (typeof endpoint === "string") return undefined;
    try {
      const { status, text } = await exchangeShort(this.#connections.poolFor(endpoint.origin), {
        method: "GET",
        path: `${endpoint.basePath}/v1/jobs/${jobId}`,
        timeoutMs: Math.min(patienceMs, this.#timeoutMs),
      });
      if (status !== 200) return undefined;
      const json: unknown = JSON.parse(text);
      if (!isObject(json) || typeof json.status !== "string") return undefined;
      const { status: word, acknowledgement, statement } = json;
      return {
        status: word.slice(0, 64),
        acknowledgement: isHex(acknowledgement) ? acknowledgement : undefined,
        statement: decodeDelivered(JSON.stringify(statement ?? null)),
      };
    } catch {
      return undefined;
    }
  }

  /** Hands over our receipt. It counts as taken only by an answer of our protocol: a proxy before the provider answers for itself. */
  async giveReceipt(endpointText: string, jobId: Hex, receipt: SignedUsage): Promise<ReceiptOutcome> {
    const endpoint = parseEndpoint(endpointText, this.#allowPrivate);
    if (typeof endpoint === "string") return { kind: "unreachable" };
    try {
      const { status, text } = await exchangeShort(this.#connections.poolFor(endpoint.origin), {
        method: "POST",
        path: `${endpoint.basePath}/v1/jobs/${jobId}/receipt`,
        headers: { "content-type": "application/json" },
        body: encodeDelivered(receipt.usage, receipt.responseHash, receipt.signature),
        timeoutMs: this.#timeoutMs,
      });
      const answer: unknown = JSON.parse(text);
      const code = providerErrorCodeOf(answer);
      if (code !== undefined) return { kind: code === "receipt_below_usage" ? "disputed" : "refused" };
      const isJob = status === 200 && isObject(answer) && answer.jobId === jobId && typeof answer.status === "string";
      return { kind: isJob ? "taken" : "unreachable" };
    } catch {
      return { kind: "unreachable" };
    }
  }
}

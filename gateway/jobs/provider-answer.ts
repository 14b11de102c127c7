import type { IncomingHttpHeaders } from "node:http";
import type { Pool } from "undici";
import { type Hex, isHex } from "viem";
import { bodyHash } from "../../protocol/body-hash.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { Usage } from "../../protocol/usage.ts";
import { decodeDelivered, type UsageStatementWire, wireHeaders } from "../../protocol/wire.ts";
import { isObject } from "../openai/field-types.ts";
import { AnswerStream, type AnswerStreamOptions, type StreamFault, type StreamStep } from "../relay/answer-stream.ts";
import { readUsage } from "../relay/read-usage.ts";
import { type Exchange, type ExchangeError, startExchange } from "../upstream/exchange.ts";
import { type ProviderRefusal, readRefusal, refusalOf } from "./provider-refusal.ts";

/** What a provider's answer came to. */
export type ProviderResult =
  /** Whole. `body` is the JSON of an answer that was not streamed. */
  | ({ readonly kind: "delivered"; readonly body: Buffer | undefined } & Delivered)
  | { readonly kind: "refused"; readonly refusal: ProviderRefusal }
  /** Broken; `started`: bytes of it have gone to the client. */
  | ({
      readonly kind: "fault";
      readonly reason: string;
      readonly message: string | undefined;
      readonly timedOut: boolean;
      /** A kept connection was closed under the request before a head came. */
      readonly staleConnection: boolean;
    } & Seen)
  /** We gave up because the client went. */
  | ({
      readonly kind: "aborted";
      /** The provider has heard nothing of the request. */
      readonly unsent: boolean;
    } & Seen);

/** What was seen of an answer. */
export interface Seen {
  readonly started: boolean;
  readonly acknowledged: boolean;
  /** Blocks with content, and about the bytes of content in them. */
  readonly contentFrames: number;
  readonly contentBytes: number;
}

/** What a whole answer says of itself. */
export interface Delivered {
  readonly usage: Usage | undefined;
  readonly statement: UsageStatementWire | undefined;
  readonly responseHash: Hex;
  readonly contentFrames: number;
  readonly contentBytes: number;
}

/** Where a stream goes and who is told of what. */
export interface ProviderAnswerListener {
  /** The provider took the job; its consent was checked. */
  acknowledged(acknowledgement: Hex): void;
  /** The first content follows. */
  start(): void;
  /** More of a stream has come than was told before; what it was is handed on after this. */
  seen(stream: Pick<Seen, "contentFrames" | "contentBytes">): void;
  /** False: wait for `onDrain`. */
  write(bytes: Buffer): boolean;
  onDrain(callback: () => void): void;
  /** The client has all of its answer; the provider still owes its statement. */
  done(): void;
}

/** One request to one provider. Times in ms. */
export interface ProviderCall {
  readonly pool: Pool;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** undefined: the answer is JSON in one piece. */
  readonly stream: AnswerStreamOptions | undefined;
  /** Until the head of the answer. */
  readonly headTimeoutMs: number;
  /**
   * For an answer whose head comes only when all of it is there: at this rhythm the provider must show the consent by which it works
   * on it. None that holds, twice in a row, ends the wait: a mere word binds nobody.
   */
  readonly probe?: { readonly everyMs: number; consent(): Promise<Hex | undefined> };
  readonly idleTimeoutMs: number;
  /** For the statement, after the client has its answer. */
  readonly statementTimeoutMs: number;
  readonly maxAnswerBytes: number;
  verifyAcknowledgement(acknowledgement: Hex): boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const maxRefusalBytes = 64 * 1024;
/** Characters; a contract wallet's signature may be long. */
const maxAcknowledgementLength = 16_384;

/**
 * Sends a request to a provider and follows its answer to the end. Never rejects. The connection is cut at once when the signal is
 * aborted, unless the client has all of its answer already.
 */
export async function askProvider(call: ProviderCall, listener: ProviderAnswerListener): Promise<ProviderResult> {
  const answer = new ProviderAnswer(call, listener);
  return await answer.run();
}

class ProviderAnswer {
  readonly #call: ProviderCall;
  readonly #listener: ProviderAnswerListener;
  readonly #stream: AnswerStream | undefined;
  #exchange: Exchange | undefined;
  #settle: (result: ProviderResult) => void = () => undefined;
  #over = false;
  #status = 0;
  #acknowledged = false;
  #told = { started: false, done: false };
  #statementHeader: string | undefined;
  /** Body of a refusal or of a JSON answer. */
  #parts: Buffer[] = [];
  #partsLength = 0;
  #cancelStatement: () => void = () => undefined;
  #cancelProbe: () => void = () => undefined;

  constructor(call: ProviderCall, listener: ProviderAnswerListener) {
    this.#call = call;
    this.#listener = listener;
    this.#stream = call.stream === undefined ? undefined : new AnswerStream(call.stream);
  }

  async run(): Promise<ProviderResult> {
    const { promise, resolve } = Promise.withResolvers<ProviderResult>();
    const onAbort = (): void => {
      if (!this.#told.done) this.#exchange?.abort("aborted");
    };
    this.#settle = (result) => {
      if (this.#over) return;
      this.#over = true;
      this.#cancelStatement();
      this.#cancelProbe();
      this.#call.signal.removeEventListener("abort", onAbort);
      resolve(result);
    };
    if (this.#call.signal.aborted) {
      this.#settle({ kind: "aborted", unsent: true, ...this.#seen() });
      return await promise;
    }
    this.#call.signal.addEventListener("abort", onAbort, { once: true });
    this.#exchange = startExchange(
      this.#call.pool,
      {
        method: "POST",
        path: this.#call.path,
        headers: this.#call.headers,
        body: this.#call.body,
        headTimeoutMs: this.#call.headTimeoutMs,
        idleTimeoutMs: this.#call.idleTimeoutMs,
      },
      {
        onHead: (status, headers) => this.#onHead(status, headers),
        onData: (chunk) => this.#onData(chunk),
        onEnd: () => this.#onEnd(),
        onError: (error) => this.#onError(error),
      },
    );
    this.#scheduleProbe(0);
    return await promise;
  }

  #scheduleProbe(failures: number): void {
    const { probe, clock } = this.#call;
    if (probe === undefined) return;
    this.#cancelProbe = clock.after(probe.everyMs, () => void this.#probe(failures));
  }

  async #probe(failures: number): Promise<void> {
    const consent = await this.#call.probe?.consent().catch(() => undefined);
    if (this.#over || this.#status !== 0) return;
    if (consent !== undefined && this.#hasConsent(consent)) this.#scheduleProbe(0);
    else if (failures === 0) this.#scheduleProbe(1);
    else this.#exchange?.abort("head_timeout");
  }

  #onHead(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    if (status !== 200) return;
    const type = (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase();
    const wanted = this.#stream === undefined ? "application/json" : "text/event-stream";
    if (type !== wanted) {
      this.#fault("wrong_content_type");
      return;
    }
    const statement = headers[wireHeaders.usage];
    this.#statementHeader = typeof statement === "string" ? statement : undefined;
    const acknowledgement = headers[wireHeaders.acknowledgement];
    if (!isHex(acknowledgement)) {
      this.#fault("no_acknowledgement");
      return;
    }
    // Not a byte of the answer is looked at before the provider has bound itself.
    if (!this.#hasConsent(acknowledgement)) this.#fault("bad_acknowledgement");
  }

  /** Whether the acknowledgement holds; the first that does is told. */
  #hasConsent(acknowledgement: Hex): boolean {
    if (acknowledgement.length > maxAcknowledgementLength || !this.#call.verifyAcknowledgement(acknowledgement)) {
      return false;
    }
    if (!this.#acknowledged) {
      this.#acknowledged = true;
      this.#listener.acknowledged(acknowledgement);
    }
    return true;
  }

  #onData(chunk: Buffer): boolean {
    if (this.#over) return true;
    if (this.#status !== 200 || this.#stream === undefined) {
      this.#parts.push(chunk);
      this.#partsLength += chunk.length;
      if (this.#status !== 200 && this.#partsLength > maxRefusalBytes) this.#refused();
      else if (this.#partsLength > this.#call.maxAnswerBytes) this.#fault("too_large");
      return true;
    }
    return this.#pass(this.#stream.push(chunk));
  }

  /** Hands on what the stream gave; false when the client is slower. */
  #pass(step: StreamStep): boolean {
    const stream = this.#stream;
    if (stream === undefined) return true;
    let fast = true;
    if (step.output.length > 0) {
      if (!this.#told.started) {
        this.#told.started = true;
        this.#listener.start();
      }
      this.#listener.seen(stream.observation);
      for (const bytes of step.output) fast = this.#listener.write(bytes) && fast;
    }
    if (step.fault !== undefined) {
      this.#faultOf(step.fault);
      return true;
    }
    if (stream.done && !this.#told.done) {
      this.#told.done = true;
      this.#listener.done();
      this.#cancelStatement = this.#call.clock.after(this.#call.statementTimeoutMs, () => this.#delivered());
      return true;
    }
    if (!fast) this.#listener.onDrain(() => this.#exchange?.resume());
    return fast;
  }

  #onEnd(): void {
    if (this.#over) return;
    if (this.#status !== 200) {
      this.#refused();
      return;
    }
    if (this.#stream === undefined) {
      this.#deliveredJson();
      return;
    }
    this.#pass(this.#stream.end());
    this.#delivered();
  }

  #onError(error: ExchangeError): void {
    if (this.#over) return;
    if (this.#told.done) {
      // The answer is whole for the client; only the statement is missing, and may be asked for.
      this.#delivered();
      return;
    }
    if (error.failure === "aborted") {
      this.#settle({ kind: "aborted", unsent: error.wasUnsent, ...this.#seen() });
      return;
    }
    if (this.#status !== 0 && this.#status !== 200) {
      this.#refused();
      return;
    }
    this.#settle({
      kind: "fault",
      reason: error.failure,
      message: undefined,
      timedOut: error.failure === "head_timeout" || error.failure === "idle_timeout",
      staleConnection: this.#status === 0 && error.wasReused,
      ...this.#seen(),
    });
  }

  #refused(): void {
    const body = Buffer.concat(this.#parts).subarray(0, maxRefusalBytes).toString("utf8");
    this.#settle({ kind: "refused", refusal: readRefusal(this.#status, body) });
    this.#exchange?.abort();
  }

  #faultOf(fault: StreamFault): void {
    // A provider that has bound itself at once can only refuse inside its stream.
    const refusal = fault.error === undefined || this.#told.started ? undefined : refusalOf(fault.error);
    if (refusal === undefined) {
      this.#fault(fault.kind, fault.message);
      return;
    }
    this.#settle({ kind: "refused", refusal });
    this.#exchange?.abort();
  }

  #fault(reason: string, message?: string): void {
    this.#settle({ kind: "fault", reason, message, timedOut: false, staleConnection: false, ...this.#seen() });
    this.#exchange?.abort();
  }

  #delivered(): void {
    const stream = this.#stream;
    if (stream === undefined || this.#over) return;
    const { usage, statement, contentFrames, contentBytes } = stream.observation;
    this.#settle({
      kind: "delivered",
      body: undefined,
      usage,
      statement,
      responseHash: stream.responseHash(),
      contentFrames,
      contentBytes,
    });
    this.#exchange?.abort();
  }

  #deliveredJson(): void {
    const body = Buffer.concat(this.#parts, this.#partsLength);
    let json: unknown;
    try {
      json = JSON.parse(body.toString("utf8"));
    } catch {
      this.#fault("malformed");
      return;
    }
    if (!isObject(json)) {
      this.#fault("malformed");
      return;
    }
    const { error } = json;
    if (error !== undefined && error !== null) {
      this.#fault("error_object", isObject(error) && typeof error.message === "string" ? error.message : undefined);
      return;
    }
    if (!Array.isArray(json.choices)) {
      this.#fault("malformed");
      return;
    }
    this.#settle({
      kind: "delivered",
      body,
      usage: readUsage(json.usage),
      statement: this.#statementHeader === undefined ? undefined : decodeDelivered(this.#statementHeader),
      responseHash: bodyHash(body),
      contentFrames: 1,
      contentBytes: body.length,
    });
  }

  #seen(): Seen {
    const observation = this.#stream?.observation;
    return {
      started: this.#told.started,
      acknowledged: this.#acknowledged,
      contentFrames: observation?.contentFrames ?? 0,
      contentBytes: observation?.contentBytes ?? 0,
    };
  }
}

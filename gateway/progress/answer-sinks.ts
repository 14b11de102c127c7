import type { ServerResponse } from "node:http";
import type { Clock } from "../../protocol/clock.ts";
import type { T4tError } from "../../protocol/errors.ts";
import type { ProgressEvent, ProgressMode } from "../../protocol/progress.ts";
import { sseContentType } from "../../protocol/sse.ts";
import { sendBytes, sendError } from "../http/respond.ts";
import type { AnswerHead, AnswerSink } from "../jobs/answer-sink.ts";
import { decisionHeader, type DecisionRecord } from "../routing/decision-record.ts";
import { errorFrame, type InertChunk, keepAliveFrame, progressFrame } from "./progress-frames.ts";

/** Options of `StreamSink`. Times in ms. */
export interface StreamSinkOptions {
  readonly response: ServerResponse;
  readonly clock: Clock;
  readonly mode: ProgressMode;
  readonly chunk: InertChunk;
  /** Sent as `x-t4t-job-id` when the status line goes before a provider answers. */
  readonly jobId: string;
  /** How long the status line is held, so that a real 404, 429 or 503 stays possible. */
  readonly graceMs: number;
  /** Longest silence after the status line. */
  readonly keepAliveMs: number;
  /** Longest time that a client may read nothing while bytes wait for it. */
  readonly stallMs: number;
  /** Say why this provider. */
  readonly debug: boolean;
}

/** What an answer says of who gave it. */
function headersOf(head: AnswerHead, debug: boolean): Record<string, string> {
  return {
    ...failureHeaders(head.jobId, head.decision, debug),
    "x-t4t-provider": head.provider,
    // Model ids may hold any character; header values may not.
    "x-t4t-model": encodeURI(head.modelId),
  };
}

/** What is said of a request also when nobody answers it. */
function failureHeaders(jobId: string, decision: DecisionRecord | undefined, debug: boolean): Record<string, string> {
  return {
    "x-t4t-job-id": jobId,
    ...(debug && decision !== undefined ? { "x-t4t-decision": decisionHeader(decision) } : {}),
  };
}

/** A client of an OpenAI stream. */
export class StreamSink implements AnswerSink {
  readonly #options: StreamSinkOptions;
  readonly #response: ServerResponse;
  readonly #optedIn: boolean;
  #committed = false;
  #answering = false;
  #over = false;
  #sentInertChunk = false;
  /** Frames of progress not sent yet: all of them for clients that asked, else the newest. */
  #waiting: string[] = [];
  #lastWrite = 0;
  #cancelGrace: () => void;
  #cancelKeepAlive: () => void = () => undefined;

  constructor(options: StreamSinkOptions) {
    this.#options = options;
    this.#response = options.response;
    this.#optedIn = options.mode === "event" || options.mode === "chunk";
    this.#cancelGrace = options.clock.after(options.graceMs, () => this.#commit());
    this.#response.once("close", () => this.#stop());
  }

  /** Whether the status line has gone. */
  get committed(): boolean {
    return this.#committed;
  }

  get chunkId(): string | undefined {
    return this.#sentInertChunk ? this.#options.chunk.id : undefined;
  }

  progress(event: ProgressEvent): void {
    // Later events have no place in the client's answer: it is under way, or over.
    if (this.#over || this.#answering || event.type === "failed") return;
    const frame = progressFrame(this.#options.mode, event, this.#options.chunk);
    if (frame === undefined) return;
    if (this.#committed) {
      this.#sendFrame(frame);
      return;
    }
    if (!this.#optedIn) {
      this.#waiting = [frame];
      return;
    }
    this.#waiting.push(frame);
    // The first event comes before anybody was looked for: a model that nobody offers still gets its 404.
    if (event.type !== "selecting_provider") this.#commit();
  }

  start(head: AnswerHead): void {
    if (this.#over) return;
    this.#answering = true;
    if (this.#committed) return;
    this.#waiting = [];
    this.#commit(head);
  }

  write(bytes: Buffer): boolean {
    if (this.#over) return true;
    this.#lastWrite = this.#options.clock.monotonic();
    return this.#response.write(bytes);
  }

  onDrain(callback: () => void): void {
    if (this.#over || !this.#response.writableNeedDrain) {
      callback();
      return;
    }
    const finish = (): void => {
      cancel();
      this.#response.off("drain", finish);
      this.#response.off("close", finish);
      callback();
    };
    const cancel = this.#options.clock.after(this.#options.stallMs, () => this.#response.destroy());
    this.#response.once("drain", finish);
    this.#response.once("close", finish);
  }

  end(): void {
    if (this.#over) return;
    this.#stop();
    this.#response.end();
  }

  answer(head: AnswerHead, body: Buffer): void {
    this.start(head);
    this.write(body);
    this.end();
  }

  fail(error: T4tError, decision?: DecisionRecord): void {
    if (this.#over) return;
    if (this.#committed) {
      this.#stop();
      this.#response.end(errorFrame(error));
    } else {
      this.#stop();
      sendError(this.#response, error, failureHeaders(this.#options.jobId, decision, this.#options.debug));
    }
  }

  #commit(head?: AnswerHead): void {
    if (this.#committed || this.#over) return;
    this.#cancelGrace();
    this.#committed = true;
    this.#response.writeHead(200, {
      "content-type": sseContentType,
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      "x-content-type-options": "nosniff",
      ...(head === undefined ? { "x-t4t-job-id": this.#options.jobId } : headersOf(head, this.#options.debug)),
    });
    const frames = this.#waiting;
    this.#waiting = [];
    if (head === undefined) {
      if (frames.length === 0) frames.push(keepAliveFrame(this.#options.mode, this.#options.chunk));
      for (const frame of frames) this.#sendFrame(frame);
    }
    this.#keepAlive(this.#options.keepAliveMs);
  }

  #sendFrame(frame: string): void {
    if (this.#optedIn) this.#sentInertChunk = true;
    this.#lastWrite = this.#options.clock.monotonic();
    this.#response.write(frame);
  }

  #keepAlive(delayMs: number): void {
    this.#cancelKeepAlive = this.#options.clock.after(delayMs, () => {
      const silent = this.#options.clock.monotonic() - this.#lastWrite;
      const left = this.#options.keepAliveMs - silent;
      if (left > 0) {
        this.#keepAlive(left);
        return;
      }
      // A client that does not read gets no more to read.
      if (!this.#response.writableNeedDrain) this.#sendFrame(keepAliveFrame(this.#options.mode, this.#options.chunk));
      this.#keepAlive(this.#options.keepAliveMs);
    });
  }

  #stop(): void {
    this.#over = true;
    this.#cancelGrace();
    this.#cancelKeepAlive();
  }
}

/** A client that waits for one JSON answer. Progress is not shown: an HTTP answer has no place for it. */
export class JsonSink implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #jobId: string;
  readonly #debug: boolean;
  readonly chunkId = undefined;

  constructor(response: ServerResponse, jobId: string, debug: boolean) {
    this.#response = response;
    this.#jobId = jobId;
    this.#debug = debug;
  }

  progress(): void {
    // Nothing to show it in.
  }

  start(): void {
    throw new Error("a request without stream got a streamed answer");
  }

  write(): boolean {
    return true;
  }

  onDrain(callback: () => void): void {
    callback();
  }

  end(): void {
    // The answer was sent whole.
  }

  answer(head: AnswerHead, body: Buffer): void {
    sendBytes(this.#response, 200, body, "application/json", headersOf(head, this.#debug));
  }

  fail(error: T4tError, decision?: DecisionRecord): void {
    sendError(this.#response, error, failureHeaders(this.#jobId, decision, this.#debug));
  }
}

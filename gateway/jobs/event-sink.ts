import { SseSplitter } from "../../protocol/sse.ts";
import type { AnswerSink } from "./answer-sink.ts";
import type { JobRecord } from "./job-record.ts";

/**
 * Takes the answer of a job of the job API: its pieces become events, readers come and go as they like. While one reads, the answer
 * comes no faster than it reads; one that stops reading is cut off by the route, and then waited for no more.
 */
export class EventSink implements AnswerSink {
  readonly chunkId = undefined;
  readonly #record: JobRecord;
  readonly #splitter = new SseSplitter();

  constructor(record: JobRecord) {
    this.#record = record;
  }

  progress(): void {
    // The record tells its readers itself.
  }

  start(): void {
    // Who answers is among the events.
  }

  write(bytes: Buffer): boolean {
    for (const { data } of this.#splitter.push(bytes)) {
      if (data !== undefined && data !== "[DONE]") this.#record.events.addChunk(data.replaceAll("\n", " "));
    }
    return !this.#record.events.isBehind;
  }

  onDrain(callback: () => void): void {
    this.#record.events.onCaughtUp(callback);
  }

  end(): void {
    // The end of the job is an event of its own.
  }

  answer(): void {
    // Kept with the job.
  }

  fail(): void {
    // The record's own event says it.
  }
}

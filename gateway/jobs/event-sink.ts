import { SseSplitter } from "../../protocol/sse.ts";
import type { AnswerSink } from "./answer-sink.ts";
import type { JobRecord } from "./job-record.ts";

/** Takes the answer of a job of the job API: its pieces become events, readers come and go as they like. */
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
    return true;
  }

  onDrain(callback: () => void): void {
    callback();
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

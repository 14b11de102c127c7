import type { ModelStatus } from "../../protocol/status.ts";
import { InputThroughput } from "./input-throughput.ts";

/** What one stream tells the statistics of its model. Each method counts once. */
export interface StreamStatistics {
  /** The first output of the model came (monotonic ms). */
  firstOutput(nowMs: number): void;
  /** The stream ended. `uncachedTokens` is undefined where the backend did not say its usage, or no output came. */
  end(uncachedTokens: number | undefined): void;
}

/** Statistics of one generation of a model: one model on one backend process. */
export class ModelStatistics {
  readonly model: string;
  readonly generation: string;
  readonly #throughput: InputThroughput;
  #running = 0;
  #queuedInputTokens = 0;

  /** @param initialInputTps Stands until measured; tokens per second. */
  constructor(model: string, generation: string, initialInputTps: number | undefined) {
    this.model = model;
    this.generation = generation;
    this.#throughput = new InputThroughput(initialInputTps);
  }

  /** A stream goes to the backend now (monotonic ms). */
  begin(estimatedInputTokens: number, nowMs: number): StreamStatistics {
    const ticket = this.#throughput.submit(nowMs);
    this.#running += 1;
    this.#queuedInputTokens += estimatedInputTokens;
    let isQueued = true;
    let isRunning = true;
    const leaveQueue = (): void => {
      if (!isQueued) return;
      isQueued = false;
      this.#queuedInputTokens -= estimatedInputTokens;
    };
    return {
      firstOutput: (at) => {
        leaveQueue();
        ticket.firstOutput(at);
      },
      end: (uncachedTokens) => {
        if (!isRunning) return;
        isRunning = false;
        leaveQueue();
        this.#running -= 1;
        ticket.end(uncachedTokens);
      },
    };
  }

  /** The published part of the status. */
  read(): ModelStatus {
    return {
      model: this.model,
      generation: this.generation,
      ...this.#throughput.read(),
      running: this.#running,
      queuedInputTokens: this.#queuedInputTokens,
    };
  }
}

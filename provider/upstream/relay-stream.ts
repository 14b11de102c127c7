import type { ServerResponse } from "node:http";
import type { BodyHasher } from "../../protocol/body-hash.ts";
import type { Clock } from "../../protocol/clock.ts";
import { SseSplitter } from "../../protocol/sse.ts";
import type { AnswerHead, RunAbort } from "./answer.ts";
import type { UsageMeter } from "./usage-meter.ts";
import { Watchdog } from "./watchdog.ts";

/** How a relayed stream ended. */
export type RelayEnd =
  /** The backend said that the answer is over. */
  | "complete"
  /** It ended or broke before. */
  | "cut";

/** Options of `relayStream`. */
export interface RelayOptions {
  readonly head: AnswerHead;
  readonly response: ServerResponse;
  readonly meter: UsageMeter;
  readonly hasher: BodyHasher;
  readonly abort: RunAbort;
  readonly clock: Clock;
  /** Longest silence of the backend, and longest time that the gateway may leave bytes unread, in ms. */
  readonly idleMs: number;
  /** Longest silence before the first byte, in ms. */
  readonly firstByteMs: number;
  /** The model's first output passed. */
  readonly onFirstOutput: () => void;
}

/** How long a backend may keep its connection busy after `[DONE]` before it is cut. */
const lingerMs = 1_000;
const blockEnd = Buffer.from("\n\n");

/**
 * Passes a backend's SSE bytes on as they come, unchanged, metering and hashing what is sent; a slow gateway slows the backend. Ends
 * at `[DONE]` without waiting for the backend to close.
 */
export async function relayStream(options: RelayOptions): Promise<RelayEnd> {
  const { head, response, meter, hasher, abort, clock, idleMs, firstByteMs, onFirstOutput } = options;
  const { body } = head;
  const splitter = new SseSplitter();
  let hadOutput = false;
  let over = false;

  let isCorked = false;
  // A corked response tells only what it holds itself: whether the gateway keeps up is known by the connection alone.
  const { socket } = response;
  const pass = (bytes: Buffer): boolean => {
    hasher.update(bytes);
    // What came in one packet leaves in one: blocks that arrive together would each cost a system call.
    if (!isCorked) {
      isCorked = true;
      response.cork();
      process.nextTick(() => {
        isCorked = false;
        response.uncork();
      });
    }
    response.write(bytes);
    return socket?.writableNeedDrain !== true;
  };
  const meterBlocks = (bytes: Buffer): void => {
    for (const frame of splitter.push(bytes)) {
      if (meter.take(frame) && !hadOutput) {
        hadOutput = true;
        onFirstOutput();
      }
    }
  };

  return await new Promise<RelayEnd>((resolve) => {
    let isFirst = true;
    const backendSilence = new Watchdog(clock, firstByteMs, () =>
      abort.abort(isFirst ? "first_byte_timeout" : "idle_timeout"),
    );
    const gatewaySilence = new Watchdog(clock, idleMs, () => abort.abort("stalled_reader"));
    gatewaySilence.stop();
    const onDrain = (): void => {
      gatewaySilence.stop();
      backendSilence.restart(idleMs);
      body.resume();
    };
    const finish = (end: RelayEnd): void => {
      if (over) return;
      over = true;
      backendSilence.stop();
      gatewaySilence.stop();
      socket?.off("drain", onDrain);
      resolve(end);
    };
    socket?.on("drain", onDrain);
    body.on("data", (bytes: Buffer) => {
      if (over) return;
      if (isFirst) {
        isFirst = false;
        backendSilence.restart(idleMs);
      } else {
        backendSilence.touch();
      }
      try {
        meterBlocks(bytes);
      } catch (error) {
        // A block without end is no answer; the bytes are not passed on.
        body.destroy(error as Error);
        finish("cut");
        return;
      }
      const keepGoing = pass(bytes);
      if (meter.isDone && splitter.pendingBytes === 0) {
        finish("complete");
        const cancel = clock.after(lingerMs, () => body.destroy());
        body.once("close", cancel);
        body.resume();
      } else if (!keepGoing) {
        backendSilence.stop();
        gatewaySilence.restart(idleMs);
        body.pause();
      }
    });
    body.once("end", () => {
      if (over) return;
      if (splitter.pendingBytes > 0) {
        // The last block lacks its blank line: it is added, so that what follows is a block of its own.
        meterBlocks(blockEnd);
        pass(blockEnd);
      }
      finish(meter.isComplete ? "complete" : "cut");
    });
    body.on("error", () => finish("cut"));
    body.once("close", () => finish("cut"));
  });
}

import type { Clock } from "../../protocol/clock.ts";
import type { LiveJobs } from "../jobs/live-jobs.ts";
import type { StreamEnds } from "../jobs/stream-ends.ts";
import type { JobBook } from "../settlement/job-book.ts";
import type { ChainSide } from "./chain-side.ts";
import type { NodeLog } from "./log.ts";

/** After the last stream, how long receipts may still come. */
const lastReceiptsMs = 3_000;
/** After that, how long claims may still take. */
const lastClaimsMs = 15_000;
/** How long streams have to end once they were aborted, and the journal for their ends. */
const lastWritesMs = 10_000;

/** What is drained. */
export interface DrainParts {
  readonly side: Pick<ChainSide, "declineUnbegun" | "claimDelivered">;
  readonly book: JobBook;
  readonly live: LiveJobs;
  readonly ends: StreamEnds;
  readonly clock: Clock;
  readonly log: NodeLog;
  /** Ms that answers which run may still take. */
  readonly drainMs: number;
}

/**
 * Lets a node's work end, once nothing is admitted any more: gives back what was not begun, lets answers end and settles them, each
 * within bounds. What is left then stays in the journal for the next start.
 */
export async function drain({ side, book, live, ends, clock, log, drainMs }: DrainParts): Promise<void> {
  const bounded = async (limitMs: number, task: () => Promise<void>) => await within(limitMs, task, clock, log);
  await bounded(drainMs, async () => await side.declineUnbegun());
  await bounded(drainMs, async () => await live.allEnded());
  live.abortAll("drain");
  await bounded(lastWritesMs, async () => await live.allEnded());
  await flushEnds(ends, clock, log);
  // A gateway signs as soon as its stream has ended; one that has not by now may be gone.
  await bounded(Math.min(lastReceiptsMs, drainMs), async () => await settled(book));
  // Each on its own: what cannot be given back must not keep what was earned from being claimed.
  await Promise.all([
    bounded(lastClaimsMs, async () => await side.declineUnbegun()),
    bounded(lastClaimsMs, async () => await side.claimDelivered()),
  ]);
  await bounded(lastClaimsMs, async () => await settled(book));
}

/** Writes the last ends of streams, within bounds: the next process would know of the last checkpoint only. */
export async function flushEnds(ends: StreamEnds, clock: Clock, log: NodeLog): Promise<void> {
  await within(lastWritesMs, async () => await ends.flushAll(), clock, log);
}

/** Resolves when the book holds no open job. */
async function settled(book: JobBook): Promise<void> {
  if (book.openJobs().length === 0) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = book.onChange(() => {
    if (book.openJobs().length === 0) resolve();
  });
  await promise.finally(stop);
}

/** One part of the end. Its failure is told and ends nothing else: the answers that run are still to be delivered and claimed. */
async function within(limitMs: number, task: () => Promise<void>, clock: Clock, log: NodeLog): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(limitMs, resolve);
  await Promise.race([task().catch((error: unknown) => log.fault("drain", error)), promise]);
  cancel();
}

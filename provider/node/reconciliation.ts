import type { Address, PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { RegistryReader } from "../registration/registry-reader.ts";
import type { EndCheck } from "../settlement/end-check.ts";
import type { JobBook } from "../settlement/job-book.ts";
import type { LostEnds } from "../settlement/recover.ts";
import type { NodeLog } from "./log.ts";

/** Options of `Reconciliation`. */
export interface ReconciliationOptions {
  readonly client: PublicClient;
  readonly registry: RegistryReader;
  readonly escrow: Address;
  readonly owner: Address;
  readonly book: JobBook;
  readonly lostEnds: LostEnds;
  readonly endCheck: EndCheck;
  readonly clock: Clock;
  readonly log: NodeLog;
  /** Number of the newest block seen. */
  readonly block: () => number | undefined;
  /** The registry counts fewer slots than this provider has open jobs, at two looks in a row. Once, until it counts enough again. */
  readonly onFewerSlots: (missing: number) => void;
}

/** Ms between two comparisons of the journal's open jobs with the chain's. */
const reconcileMs = 60_000;
/** Newest blocks whose ends are checked again while the two disagree: above the depth of any reorganisation of a live chain. */
const recheckedBlocks = 256;

/** Compares the journal with the chain once a minute, and looks after what has come to differ. */
export class Reconciliation {
  readonly #options: ReconciliationOptions;
  #drift: number | undefined;
  /** Looks in a row at which the chain had more open jobs than the journal. */
  #driftLooks = 0;
  /** Looks in a row at which the chain had fewer open jobs than the journal. */
  #fewerLooks = 0;
  #balance: bigint | undefined;
  #cancel: () => void = () => undefined;
  #isStopped = false;

  constructor(options: ReconciliationOptions) {
    this.#options = options;
  }

  /** Open jobs on chain less those in the journal, at the last comparison. */
  get drift(): number | undefined {
    return this.#drift;
  }

  /** Wei that the provider has earned and not withdrawn, at the last comparison. */
  get balance(): bigint | undefined {
    return this.#balance;
  }

  /** Compares, and again every minute until stopped; resolves after the first comparison, whatever became of it. */
  async start(): Promise<void> {
    await this.#reconcile();
    this.#schedule();
  }

  /** Starts no other comparison. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#cancel = this.#options.clock.after(reconcileMs, () => void this.start());
  }

  async #reconcile(): Promise<void> {
    const { client, registry, escrow, owner, book, lostEnds, endCheck, log, block, onFewerSlots } = this.#options;
    try {
      const lost = await lostEnds.look();
      if (lost > 0) log.warn("took up streams whose end was lost", { jobs: lost });
      const [provider, account] = await Promise.all([
        registry.provider(owner),
        client.readContract({ address: escrow, abi: jobEscrowAbi, functionName: "accountOf", args: [owner] }),
      ]);
      this.#drift = (provider?.openJobs ?? 0) - book.openJobs().length;
      this.#balance = account.free;
      this.#driftLooks = this.#drift > 0 ? this.#driftLooks + 1 : 0;
      // An end that the chain has and we have not heard of yet is heard of before the next look.
      this.#fewerLooks = this.#drift < 0 ? this.#fewerLooks + 1 : 0;
      if (this.#fewerLooks === 2) onFewerSlots(-this.#drift);
      // The chain has more open jobs than we, and had so at the look before: an end that we know of may be none, as a node that was still
      // on the branch that others had left may have told us of it. Ever less often, as the cause may be another.
      if (this.#driftLooks >= 2 && Number.isInteger(Math.log2(this.#driftLooks))) {
        await endCheck.endsAbove((block() ?? 0) - recheckedBlocks);
      }
    } catch (error) {
      log.fault("reconcile", error);
    }
  }
}

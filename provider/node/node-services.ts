import type { PublicClient } from "viem";
import type { Clock } from "../../protocol/clock.ts";
import { Admission } from "../admission/admission.ts";
import { clientSignatures } from "../admission/client-signature.ts";
import type { Slots } from "../admission/slots.ts";
import { JobRunner } from "../jobs/job-runner.ts";
import type { LiveJobs } from "../jobs/live-jobs.ts";
import { ReceiptDesk } from "../jobs/receipt-desk.ts";
import type { StreamEnds } from "../jobs/stream-ends.ts";
import type { ProviderMetrics } from "../metrics.ts";
import type { OfferingConfig } from "../settings/endpoints-source.ts";
import type { ProviderSettings } from "../settings/provider-settings.ts";
import type { JobBook } from "../settlement/job-book.ts";
import type { StatisticsBoard, BoardEntry } from "../statistics/statistics-board.ts";
import { type StatusContent, StatusService } from "../statistics/status-service.ts";
import type { Backends } from "../upstream/backends.ts";
import type { ChainSide } from "./chain-side.ts";
import { describe, type NodeLog } from "./log.ts";

/** What needs to know who the provider is: there once the chain was asked. */
export interface NodeServices {
  readonly side: ChainSide;
  readonly admission: Admission;
  readonly runner: JobRunner;
  readonly desk: ReceiptDesk;
  readonly status: StatusService;
}

/** What they share with the node. */
export interface NodeServicesOptions {
  readonly settings: ProviderSettings;
  readonly chain: PublicClient;
  readonly side: ChainSide;
  readonly book: JobBook;
  readonly live: LiveJobs;
  readonly ends: StreamEnds;
  readonly slots: Slots;
  readonly board: StatisticsBoard;
  readonly backends: Pick<Backends, "get">;
  readonly metrics: ProviderMetrics;
  readonly log: NodeLog;
  readonly clock: Clock;
  readonly offeringOf: (model: string) => OfferingConfig | undefined;
  readonly boardEntryOf: (offering: OfferingConfig) => BoardEntry;
  readonly statusContent: () => StatusContent;
  readonly isDraining: () => boolean;
  /** The node's state changed: whoever follows its status is to hear of it. */
  readonly changed: () => void;
}

/** Puts together what answers requests, for the provider that the chain side speaks for. */
export function openServices(options: NodeServicesOptions): NodeServices {
  const { settings, side, book, live, ends, slots, board, backends, metrics, log, clock, changed } = options;
  const { settleMarginSeconds, minJobSeconds, maxAuthorizationSeconds, backendIdleMs, backendFirstByteMs } = settings;
  const signatures = clientSignatures(options.chain);
  const { signer } = side;
  const shared = { book, live, ends, signer, clock } as const;
  const status = new StatusService({ signer, clock, content: options.statusContent });
  const admission = new Admission({
    ...shared,
    slots,
    reader: side.reader,
    signatures,
    offeringOf: options.offeringOf,
    backendOf: (name) => backends.get(name),
    recordOf: (offeringId) => side.record(offeringId),
    aheadMs: () => side.aheadMs(),
    block: () => side.block,
    isDraining: options.isDraining,
    maxAuthorizationSeconds,
    minRemainingSeconds: settleMarginSeconds + minJobSeconds,
  });
  const runner = new JobRunner({
    ...shared,
    idleMs: backendIdleMs,
    firstByteMs: backendFirstByteMs,
    settleMarginSeconds,
    aheadMs: () => side.aheadMs(),
    begin: (job, estimatedInputTokens) => {
      const model = board.of(options.boardEntryOf(job.offering));
      changed();
      const stream = model.begin(estimatedInputTokens, clock.monotonic());
      return {
        firstOutput: (at) => {
          stream.firstOutput(at);
          changed();
        },
        end: (uncachedTokens) => {
          stream.end(uncachedTokens);
          changed();
        },
      };
    },
    events: {
      firstOutput: (job, afterMs) => metrics.firstToken(job.request.model, afterMs),
      ended: (job, outcome, usage, tookMs, error) => {
        metrics.ran(job.request.model, outcome, usage, tookMs);
        changed();
        const fields = { jobId: job.jobId, model: job.request.model, outcome, ...usage, tookMs: Math.round(tookMs) };
        if (error === undefined) log.info("answer ended", fields);
        else log.warn("answer failed", { ...fields, error: describe(error) });
      },
    },
  });
  return { side, admission, runner, desk: new ReceiptDesk({ ...shared, signatures }), status };
}

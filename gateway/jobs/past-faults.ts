import type { Journal } from "../../store/journal.ts";
import type { RoutingStatistics } from "../routing/statistics/routing-statistics.ts";
import type { JobDocument } from "./job-document.ts";

/** Requests of earlier processes that are looked through, newest first. */
const mostRequests = 1000;

/**
 * Takes faults of providers that earlier processes of this gateway saw back from the journal: a restart does not make them good.
 * Only broken words count, faults after an acknowledgement; an outage before one says nothing after a restart.
 *
 * @param nowMs Unix ms.
 */
export async function recallFaults(
  journal: Pick<Journal, "recentJobs">,
  statistics: Pick<RoutingStatistics, "recallFault">,
  nowMs: number,
): Promise<void> {
  for (const { document } of await journal.recentJobs("gateway", mostRequests)) {
    const { attempts } = JSON.parse(document) as JobDocument;
    for (const { fault, provider, modelId, postedAt } of attempts) {
      if (fault !== true || provider === undefined || postedAt === undefined) continue;
      statistics.recallFault(provider, modelId, Math.max(0, nowMs - postedAt));
    }
  }
}

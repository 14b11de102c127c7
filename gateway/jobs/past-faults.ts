import type { Address } from "viem";
import type { Journal } from "../../store/journal.ts";
import { incidentMs } from "../routing/statistics/outcomes.ts";
import type { RoutingStatistics } from "../routing/statistics/routing-statistics.ts";
import type { JobDocument } from "./job-document.ts";

/** Requests of earlier processes that are looked through, newest first. */
const mostRequests = 1000;

interface PastFault {
  readonly provider: Address;
  readonly modelId: string;
  /** Unix ms. */
  readonly at: number;
}

/**
 * Takes faults of providers that earlier processes of this gateway saw back from the journal: a restart does not make them good.
 * Only broken words count, faults after an acknowledgement; and those of one incident once, as when they were seen.
 *
 * @param nowMs Unix ms.
 */
export async function recallFaults(
  journal: Pick<Journal, "recentJobs">,
  statistics: Pick<RoutingStatistics, "recallFault">,
  nowMs: number,
): Promise<void> {
  const rows = await journal.recentJobs("gateway", mostRequests);
  const faults = rows.flatMap(({ document }) => faultsIn(JSON.parse(document) as JobDocument));
  const heldAt = new Map<string, number>();
  for (const { provider, modelId, at } of faults.toSorted((a, b) => a.at - b.at)) {
    const key = `${provider} ${modelId}`;
    if (at - (heldAt.get(key) ?? Number.NEGATIVE_INFINITY) < incidentMs) continue;
    heldAt.set(key, at);
    statistics.recallFault(provider, modelId, Math.max(0, nowMs - at));
  }
}

function faultsIn({ attempts }: JobDocument): PastFault[] {
  return attempts.flatMap(({ fault, provider, modelId, postedAt }) =>
    fault !== true || provider === undefined || postedAt === undefined ? [] : [{ provider, modelId, at: postedAt }],
  );
}

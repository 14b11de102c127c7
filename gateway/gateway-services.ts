import type { LocalAccount } from "viem";
import type { MessageDomain } from "../protocol/messages.ts";
import { accountFromKey } from "../protocol/signing.ts";
import type { Journal } from "../store/journal.ts";
import { JournalPruner } from "../store/journal-pruner.ts";
import { CapacityLines } from "./capacity/capacity-lines.ts";
import type { ChainPort } from "./chain/gateway-chain.ts";
import { configuredPolicies } from "./configured-policies.ts";
import type { GatewayParts } from "./gateway-parts.ts";
import { GatewayStatistics } from "./jobs/gateway-statistics.ts";
import { JobService } from "./jobs/job-service.ts";
import { JobStore } from "./jobs/job-store.ts";
import { ProviderDesk } from "./jobs/provider-desk.ts";
import type { RequestContext } from "./jobs/request-context.ts";
import type { Grant } from "./jobs/selection.ts";
import { Settlement } from "./jobs/settlement.ts";
import { GatewayMetrics } from "./ops/metrics.ts";
import { OperatorReport } from "./ops/operator-report.ts";
import { PolicyHolder } from "./routing/policy-file.ts";
import { OfferedStatuses } from "./routing/offered-status.ts";
import { statisticsGauges } from "./routing/statistics/metrics.ts";
import { StatusFollower } from "./routing/status-follower.ts";
import { ProviderConnections } from "./upstream/connections.ts";
import { GuardedStatusTransport } from "./upstream/status-transport.ts";

const deskTimeoutMs = 10_000;

/** What a gateway serves with, whether its chain was reached or not. */
export interface GatewayServices {
  readonly account: LocalAccount;
  /** Chain and escrow that its signatures are for. */
  readonly domain: MessageDomain;
  readonly policies: PolicyHolder;
  readonly statistics: GatewayStatistics;
  readonly connections: ProviderConnections;
  readonly lines: CapacityLines<Grant>;
  readonly store: JobStore;
  readonly settlement: Settlement;
  readonly service: JobService;
  readonly pruner: JournalPruner;
  readonly statuses: OfferedStatuses;
  readonly follower: StatusFollower;
  readonly report: OperatorReport;
  readonly metrics: GatewayMetrics;
}

/** What changes in a gateway's life, as its services see it. */
export interface GatewayLife {
  readonly chain: () => ChainPort | undefined;
  /** Undefined until the chain was reached. */
  readonly context: () => RequestContext | undefined;
  /** Why requests are not served now; undefined when they are. */
  readonly notReady: () => string | undefined;
}

/**
 * Builds a gateway's services on an open journal. Nothing runs yet.
 *
 * @throws PolicyConfigError for a faulty policy file.
 */
export function buildServices(parts: GatewayParts, journal: Journal, life: GatewayLife): GatewayServices {
  const { settings, clock, random, logger } = parts;
  const account = accountFromKey(settings.chain.privateKey);
  const { chainId, escrow } = settings.chain.target;
  const domain: MessageDomain = { chainId, escrow };
  const policies = new PolicyHolder(configuredPolicies(settings));
  const report = new OperatorReport({
    logger,
    clock,
    metrics: () => metrics,
    allowPrivateEndpoints: settings.allowPrivateEndpoints,
  });
  const statistics = new GatewayStatistics(clock, settings.reputationHalfLifeSeconds * 1000, (provider, endpoint) =>
    report.endpointRefused(provider, endpoint),
  );
  const connections = new ProviderConnections({
    clock,
    allowPrivate: settings.allowPrivateEndpoints,
    connectTimeoutMs: settings.connectTimeoutMs,
    ...(parts.resolve === undefined ? {} : { resolve: parts.resolve }),
  });
  const lines = new CapacityLines<Grant>({ clock, maxWaiting: settings.maxWaiting, pollMs: settings.waitPollMs });
  const store = new JobStore({
    journal,
    clock,
    onSaveError: (error) => report.fault("journal", error),
  });
  const desk = new ProviderDesk({
    connections,
    allowPrivate: settings.allowPrivateEndpoints,
    timeoutMs: deskTimeoutMs,
  });
  const settlement = new Settlement({
    account,
    domain,
    desk,
    clock,
    endpointOf: (provider) => life.chain()?.published()?.snapshot.provider(provider)?.endpoint,
    onDisagreement: (provider, kind) => report.disagreement(provider, kind),
    onReceipt: (outcome) => metrics.receipt(outcome),
  });
  const service = new JobService({
    context: life.context,
    store,
    clock,
    policies: () => policies.current,
    waitLimitMs: settings.waitLimitMs,
    deadlineSeconds: settings.deadlineSeconds,
    onFinished: (record, tookMs) => report.requestEnded(record, tookMs),
  });
  const pruner = new JournalPruner({
    journal,
    clock,
    keepMs: settings.chain.journalKeepMs,
    onPruned: (rows) => logger.info({ rows }, "old rows were taken out of the journal"),
    onError: (error) => report.fault("journal", error),
  });
  const statuses = new OfferedStatuses(statistics);
  // For every strategy: that a provider shuts down matters to all of them.
  const follower = new StatusFollower({
    transport: new GuardedStatusTransport({ connections, allowPrivate: settings.allowPrivateEndpoints }),
    sink: statuses,
    clock,
    random,
    domain,
    onRefused: (_provider, fault) => metrics.statusRefused(fault),
  });
  const metrics = new GatewayMetrics({
    waiting: () => lines.sizes(),
    running: () => service.running,
    openJobs: () => store.openCount,
    locked: () => store.locked,
    account: () => life.chain()?.balance,
    pendingTransactions: () => life.chain()?.pendingTransactions ?? 0,
    pendingSettlements: () => settlement.pending,
    isReady: () => life.notReady() === undefined,
    index: () => life.chain()?.indexHealth,
    statistics: statisticsGauges(statistics, { follower: () => follower.state }),
  });
  return {
    account,
    domain,
    policies,
    statistics,
    connections,
    lines,
    store,
    settlement,
    service,
    pruner,
    statuses,
    follower,
    report,
    metrics,
  };
}

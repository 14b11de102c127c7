import type { ChainPort, ChainServices } from "./chain/gateway-chain.ts";
import type { GatewayParts } from "./gateway-parts.ts";
import type { GatewayServices } from "./gateway-services.ts";
import type { EscrowPolicy } from "./jobs/escrow-plan.ts";
import { Janitor } from "./jobs/janitor.ts";
import type { RequestContext } from "./jobs/request-context.ts";
import { SightedPosts } from "./jobs/sighted-posts.ts";

const statementTimeoutMs = 5000;
const maxAttempts = 8;

/** What a gateway has from the time that its chain was reached. */
export interface ReachedChain {
  /** Is to be told of every job event. */
  readonly posts: SightedPosts;
  readonly context: RequestContext;
  /** Not started. */
  readonly janitor: Janitor;
}

/** The chain was reached for the first time: from here on requests can be served. */
export function reachChain(
  parts: GatewayParts,
  services: GatewayServices,
  chain: ChainPort,
  chainServices: ChainServices,
): ReachedChain {
  const posts = new SightedPosts(chainServices.calls);
  return {
    posts,
    context: requestContext(parts, services, chain, chainServices, posts),
    janitor: janitor(parts, services, chain, chainServices),
  };
}

function requestContext(
  { settings, clock, random }: GatewayParts,
  services: GatewayServices,
  chain: ChainPort,
  { terms, treasury }: ChainServices,
  posts: SightedPosts,
): RequestContext {
  const escrow: EscrowPolicy = {
    defaultMaxOutputTokens: settings.defaultMaxOutputTokens,
    headroomRatio: settings.headroomRatio,
    unsignedLimitRatio: settings.unsignedLimitRatio,
    maxPerJob: settings.maxEscrowPerJob,
    minPayment: terms.minPayment,
    collateralBps: terms.collateralBps,
  };
  return {
    published: () => chain.published(),
    statistics: services.statistics,
    clock,
    random,
    allowPrivateEndpoints: settings.allowPrivateEndpoints,
    maxPrice: settings.maxPrice,
    escrow: () => escrow,
    lines: services.lines,
    calls: posts,
    treasury,
    chainTime: chain.time,
    terms: () => terms,
    account: services.account,
    domain: services.domain,
    connections: services.connections,
    settlement: services.settlement,
    limits: {
      deadlineSeconds: settings.deadlineSeconds,
      ackTimeoutMs: settings.ackTimeoutMs,
      idleTimeoutMs: settings.idleTimeoutMs,
      statementTimeoutMs,
      maxAnswerBytes: settings.maxAnswerBytes,
      maxAttempts,
      fullForMs: settings.waitPollMs,
    },
    observer: services.report.observer,
    nextNonce: () => chain.nextNonce(),
    posted: () => chain.poke(),
    hasGas: async () => await chain.hasGas(),
  };
}

function janitor(
  { settings, clock, janitorMs }: GatewayParts,
  { store, settlement, report }: GatewayServices,
  chain: ChainPort,
  { calls, terms }: ChainServices,
): Janitor {
  return new Janitor({
    store,
    calls,
    settlement,
    chainTime: chain.time,
    terms: () => terms,
    maxSlashFee: settings.maxSlashFee,
    clock,
    intervalMs: janitorMs,
    providerNow: (provider) => {
      const record = chain.published()?.snapshot.provider(provider);
      return record === undefined
        ? undefined
        : { signers: { provider, operator: record.operator }, endpoint: record.endpoint };
    },
    onEnd: report.jobEnded,
    onStep: (step, jobId, error) => report.janitorStep(step, jobId, error),
  });
}

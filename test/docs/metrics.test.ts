import { readFile } from "node:fs/promises";
import { expect } from "chai";
import type { Registry } from "prom-client";
import { GatewayMetrics } from "../../gateway/ops/metrics.ts";
import { statisticsGauges } from "../../gateway/routing/statistics/metrics.ts";
import { RoutingStatistics } from "../../gateway/routing/statistics/routing-statistics.ts";
import { ProviderMetrics } from "../../provider/metrics.ts";

const gateway = new GatewayMetrics({
  waiting: () => new Map(),
  running: () => 0,
  openJobs: () => 0,
  locked: () => 0n,
  account: () => undefined,
  pendingTransactions: () => 0,
  pendingSettlements: () => 0,
  isReady: () => true,
  index: () => undefined,
  statistics: statisticsGauges(new RoutingStatistics({ clock: { monotonic: () => 0 } }), {
    follower: () => ({ following: 0, connected: 0, waiting: 0 }),
  }),
});

const provider = new ProviderMetrics({
  models: () => [],
  running: () => 0,
  maxConcurrentJobs: () => 0,
  backends: () => [],
  jobsByStage: () => new Map(),
  claimable: () => 0n,
  pendingTransactions: () => 0,
  isReady: () => true,
  drift: () => undefined,
  balance: () => undefined,
  chainBlock: () => undefined,
  proposedMarkets: () => undefined,
  marketAllowableFrom: () => undefined,
});

/** What a registry exports, as the page writes it. */
function exportedBy(registry: Registry): readonly string[] {
  return registry.getMetricsAsArray().map((metric) => {
    // prom-client keeps the names of the labels, but its types do not tell.
    const { name, labelNames, constructor } = metric as unknown as {
      readonly name: string;
      readonly labelNames: readonly string[];
      readonly constructor: { readonly name: string };
    };
    return row(name, constructor.name.toLowerCase(), labelNames);
  });
}

function row(name: string, type: string, labels: readonly string[]): string {
  return `${name} | ${type} | ${labels.join(", ")}`;
}

/** Rows of a chapter of the page: metric, type, labels. */
async function documentedIn(chapter: string): Promise<readonly string[]> {
  const page = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
  const text = page.split(`\n## ${chapter}\n`)[1]?.split("\n## ")[0] ?? "";
  return [...text.matchAll(/^\| `(\w+)` \| (\w+) \| ([^|]*)\|[^|]+\|[^|]+\|$/gm)].map(
    ([, name = "", type = "", labels = ""]) =>
      row(
        name,
        type,
        [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label),
      ),
  );
}

describe("docs/metrics.md", () => {
  for (const [chapter, registry, least] of [
    ["Gateway", gateway.registry, 40],
    ["Provider node", provider.registry, 25],
  ] as const) {
    it(`names every metric of the ${chapter.toLowerCase()} with its type and labels, and none that does not exist`, async () => {
      const exported = exportedBy(registry);
      expect(exported.length).to.be.greaterThan(least);
      expect(await documentedIn(chapter)).to.have.members(exported);
    });
  }
});

import type { Address } from "viem";
import type { Random } from "../../protocol/clock.ts";
import type { ChainReader } from "./chain-reader.ts";
import type { PageReader } from "./page-reader.ts";
import type { Snapshot } from "./snapshot.ts";
import type { ProviderRecord } from "./types.ts";

/** Fields of a record that the registry's views tell, as one text: equal records have equal texts. */
function essence(record: ProviderRecord): string {
  const { address, operator, payout, endpoint, active, lastSeen, generation, maxConcurrentJobs, openJobs, stake } =
    record;
  const offerings = [...record.offerings.values()]
    .map((offering) => [
      offering.offeringId,
      offering.modelId,
      offering.modelKey,
      String(offering.inputPrice),
      String(offering.outputPrice),
      offering.contextLength,
    ])
    .toSorted((a, b) => Number(a[0]) - Number(b[0]));
  return JSON.stringify([
    address,
    operator,
    payout,
    endpoint,
    active,
    lastSeen,
    generation,
    maxConcurrentJobs,
    openJobs,
    String(stake),
    offerings,
  ]);
}

/** Whether two records of one provider differ in anything that the registry's views tell. Reputation is not among it. */
export function differ(indexed: ProviderRecord | undefined, viewed: ProviderRecord | undefined): boolean {
  if (indexed === undefined || viewed === undefined) return indexed !== viewed;
  return essence(indexed) !== essence(viewed);
}

/** The audit found records that differ from the chain's views at the same block; everything is read again. */
export class IndexDriftError extends Error {
  override readonly name = "IndexDriftError";
  readonly providers: readonly Address[];

  constructor(providers: readonly Address[], blockNumber: number) {
    super(`the index differs from the chain at block ${blockNumber} in ${providers.join(", ")}`);
    this.providers = providers;
  }
}

/** What `findDrift` needs. */
export interface AuditOptions {
  readonly reader: Pick<ChainReader, "block">;
  readonly pages: Pick<PageReader, "someProviders">;
  readonly snapshot: Snapshot;
  /** Providers to compare. */
  readonly sampleSize: number;
  readonly random: Random;
}

/**
 * Random providers whose record differs from the views at the snapshot's own block, both times that they were read: a node that is asked
 * while it puts on the next block may answer with that block's state. Empty too when the block is no longer on the chain.
 */
export async function findDrift(options: AuditOptions): Promise<readonly Address[]> {
  const { reader, snapshot, sampleSize, random } = options;
  const sampled = new Set<Address>();
  for (let pick = 0; pick < sampleSize; pick += 1) {
    const record = snapshot.sample(random);
    if (record !== undefined) sampled.add(record.address);
  }
  const suspected = await differing(options, [...sampled]);
  const drifted = await differing(options, suspected);
  if (drifted.length === 0) return [];
  const block = await reader.block(snapshot.blockNumber);
  return block?.hash === snapshot.blockHash ? drifted : [];
}

async function differing(
  { pages, snapshot }: AuditOptions,
  addresses: readonly Address[],
): Promise<readonly Address[]> {
  if (addresses.length === 0) return [];
  const viewed = new Map<Address, ProviderRecord>();
  for (const record of await pages.someProviders(addresses, snapshot.blockNumber)) viewed.set(record.address, record);
  return addresses.filter((address) => differ(snapshot.provider(address), viewed.get(address)));
}

import {
  type AbiEvent,
  type Address,
  encodeAbiParameters,
  encodeEventTopics,
  getAddress,
  type Hex,
  keccak256,
  numberToHex,
  pad,
  toHex,
} from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import type { BlockHeader, ChainReader } from "../../chain/registry-index/chain-reader.ts";
import type { Rating } from "../../chain/registry-index/reputation.ts";
import type { RpcLog } from "../../chain/registry-index/logs.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { modelKeyOf } from "../../protocol/model-key.ts";

/** Addresses of the fake chain's contracts. */
export const fakeContracts = {
  registry: getAddress("0x00000000000000000000000000000000000000aa"),
  escrow: getAddress("0x00000000000000000000000000000000000000bb"),
} as const;

/** Outcomes that halve in a day; the wallets of the process under test own nothing. */
export const fakeRating: Rating = { halfLifeSeconds: 86_400, ownClients: new Set() };

/** An event to be put into a block. */
export interface FakeEvent {
  readonly from: Address;
  readonly topics: readonly Hex[];
  readonly data: Hex;
}

function encode(
  abi: typeof providerRegistryAbi | typeof jobEscrowAbi,
  from: Address,
  name: string,
  args: Readonly<Record<string, unknown>>,
): FakeEvent {
  const event = (abi as readonly { type: string; name?: string }[]).find(
    (item) => item.type === "event" && item.name === name,
  ) as AbiEvent;
  const topics = encodeEventTopics({ abi: [event], eventName: name, args }) as Hex[];
  const plain = event.inputs.filter((input) => input.indexed !== true);
  const data = encodeAbiParameters(
    plain,
    plain.map((input) => args[input.name ?? ""]),
  );
  return { from, topics, data };
}

/** An event of the registry. */
export function registryEvent(name: string, args: Readonly<Record<string, unknown>>): FakeEvent {
  return encode(providerRegistryAbi, fakeContracts.registry, name, args);
}

/** An event of the escrow. */
export function escrowEvent(name: string, args: Readonly<Record<string, unknown>>): FakeEvent {
  return encode(jobEscrowAbi, fakeContracts.escrow, name, args);
}

/** Address number n of a test's people. */
export function person(index: number): Address {
  return getAddress(`0x${keccak256(toHex(`person ${index}`)).slice(26)}`);
}

/** Job id number n. */
export function jobNumber(index: number): Hex {
  return keccak256(toHex(`job ${index}`));
}

/** Events of a provider that registers with a cap and offers some models at a price. */
export function joining(index: number, firstOfferingId: number, models: readonly string[]): FakeEvent[] {
  const provider = person(index);
  return [
    registryEvent("ProviderRegistered", {
      provider,
      operator: provider,
      payout: provider,
      generation: 1,
      maxConcurrentJobs: 0,
      endpoint: `http://provider-${index}.test`,
    }),
    registryEvent("MaxConcurrentJobsUpdated", { provider, previousMax: 0, maxConcurrentJobs: 4, openJobs: 0 }),
    ...models.map((modelId, offset) =>
      registryEvent("OfferingSet", {
        provider,
        modelKey: modelKeyOf(modelId),
        offeringId: firstOfferingId + offset,
        inputPrice: 5n,
        outputPrice: 10n,
        contextLength: 8192,
        modelId,
      }),
    ),
  ];
}

interface FakeBlock {
  readonly header: BlockHeader;
  readonly logs: readonly RpcLog[];
}

/** A chain in memory: blocks of events, and forks. Hashes follow from content and ancestry. */
export class FakeChain {
  #blocks: FakeBlock[] = [];
  #forks = 0;
  /** Calls so far by kind. */
  readonly calls = { head: 0, block: 0, logs: 0 };
  /** Called before each call is answered; may change the chain, or throw. */
  beforeCall: (call: "head" | "block" | "logs", range?: { readonly from: number; readonly to: number }) => void = () =>
    undefined;
  /** Whether logs carry their block's time, as newer nodes do. */
  tellsTimes = true;

  constructor() {
    this.extend([]);
  }

  get length(): number {
    return this.#blocks.length;
  }

  /** Adds a block. */
  extend(events: readonly FakeEvent[]): void {
    const number = this.#blocks.length;
    const parentHash = this.#blocks.at(-1)?.header.hash ?? pad("0x0", { size: 32 });
    const content = JSON.stringify([number, parentHash, this.#forks, events]);
    const hash = bodyHash(content);
    const timestamp = 1_000_000 + number * 2;
    const header: BlockHeader = { number, hash, parentHash, timestamp, baseFeePerGas: 7n };
    const hashOf = (index: number): Hex => `0x${hash.slice(2, 58)}${index.toString(16).padStart(8, "0")}`;
    const logs = events.map((event, index) => ({
      address: event.from,
      topics: event.topics,
      data: event.data,
      blockNumber: numberToHex(number),
      blockHash: hash,
      // Of the block, and unique in it.
      transactionHash: hashOf(index),
      logIndex: numberToHex(index),
      ...(this.tellsTimes ? { blockTimestamp: numberToHex(timestamp) } : {}),
    }));
    this.#blocks.push({ header, logs });
  }

  /** Drops the newest blocks (never the first); what is added afterwards has other hashes, even with the same events. */
  drop(blocks: number): void {
    this.#forks += 1;
    this.#blocks = this.#blocks.slice(0, Math.max(1, this.#blocks.length - blocks));
  }

  reader(): ChainReader {
    const call = (kind: "head" | "block" | "logs", range?: { readonly from: number; readonly to: number }): void => {
      this.calls[kind] += 1;
      this.beforeCall(kind, range);
    };
    return {
      head: async () => {
        call("head");
        const head = this.#blocks.at(-1)?.header;
        if (head === undefined) throw new Error("an empty chain");
        return await Promise.resolve(head);
      },
      block: async (blockNumber) => {
        call("block");
        return await Promise.resolve(this.#blocks[blockNumber]?.header);
      },
      logsOfBlock: async (blockHash) => {
        call("logs");
        const block = this.#blocks.find(({ header }) => header.hash === blockHash);
        if (block === undefined) throw new Error("unknown block");
        return await Promise.resolve(block.logs);
      },
      logsInRange: async (from, to) => {
        call("logs", { from, to });
        // As nodes do: what is beyond the head is silently not there.
        return await Promise.resolve(this.#blocks.slice(from, to + 1).flatMap((block) => block.logs));
      },
    };
  }
}

import {
  type Address,
  createPublicClient,
  createWalletClient,
  encodeFunctionData,
  type Hex,
  http,
  keccak256,
  numberToHex,
  toHex,
} from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { testTokenAbi } from "../../chain/abi/test-token.ts";
import { bodyHash } from "../../protocol/body-hash.ts";
import { acknowledgementTypedData, type MessageDomain, usageStatementTypedData } from "../../protocol/messages.ts";
import type { Usage } from "../../protocol/usage.ts";
import { decodeDelivered, encodeDelivered, type UsageStatementWire, wireHeaders } from "../../protocol/wire.ts";
import type { LocalNetwork } from "../../scripts/network/local-network.ts";
import { rpcCall } from "./chain.ts";
import { type ReceivedRequest, type Script, startScriptedUpstream, type Step } from "./scripted-upstream.ts";
import { jsonAnswer } from "./upstream-scripts.ts";

/** What a hostile provider knows of the job that it is asked to run. */
export interface HostileJob {
  readonly jobId: Hex;
  readonly request: ReceivedRequest;
  readonly streamed: boolean;
  /** The provider's own key. */
  readonly account: PrivateKeyAccount;
  readonly domain: MessageDomain;
  /** A right acknowledgement. */
  readonly acknowledgement: Hex;
  /** A signed statement of any usage, as JSON text. */
  state(usage: Usage, responseHash: Hex): Promise<string>;
}

/** How it answers a completion: bytes as they go over the wire. */
export type HostileScript = (job: HostileJob) => Script | Promise<Script>;

/** A provider that is registered like any other, and behind whose endpoint nothing is as it should be. */
export interface HostileProvider {
  readonly address: Address;
  readonly account: PrivateKeyAccount;
  readonly url: string;
  /** Completions that it was asked for, in order. */
  readonly completions: readonly ReceivedRequest[];
  /** Connections that were opened to it, for whatever. */
  readonly connections: number;
  /** Receipts that were handed to it, well-formed. */
  readonly receipts: readonly (UsageStatementWire & { readonly jobId: Hex })[];
  /** What it says of a job when asked: a statement's JSON; undefined = 404. */
  statementOf: (jobId: Hex) => Promise<string | undefined>;
  /** A signed usage statement, as JSON text. */
  state(jobId: Hex, usage: Usage, responseHash: Hex): Promise<string>;
  /** Claims a job's payment; `0x` claims without a receipt. Rejects when the escrow refuses. */
  completeJob(jobId: Hex, usage: Usage, responseHash: Hex, signature: Hex): Promise<void>;
  /** Says on chain that it works on a job. */
  ackJob(jobId: Hex): Promise<void>;
  close(): Promise<void>;
}

/** Options of `startHostileProvider`. */
export interface HostileOptions {
  readonly network: LocalNetwork;
  /** Also its key: each name is one provider. */
  readonly name: string;
  readonly model: string;
  /** Wei per million tokens of either kind. */
  readonly price: bigint;
  readonly script: HostileScript;
  /** Published in place of the upstream's own URL; `PORT` stands for the upstream's port. */
  readonly endpoint?: string;
  readonly contextLength?: number;
}

const stake = 1_000_000_000n;

/** Starts a scripted upstream and registers it on the network's chain with stake, one unlimited cap and one offering. */
export async function startHostileProvider(options: HostileOptions): Promise<HostileProvider> {
  const { network, model, price } = options;
  const { chainId, deployment, rpcUrl } = network;
  const account = privateKeyToAccount(keccak256(toHex(`hostile ${options.name}`)));
  const domain = { chainId, escrow: deployment.escrow };
  const completions: ReceivedRequest[] = [];
  const receipts: (UsageStatementWire & { jobId: Hex })[] = [];

  const state = async (jobId: Hex, usage: Usage, responseHash: Hex): Promise<string> => {
    const typedData = usageStatementTypedData(domain, { jobId, provider: account.address, usage, responseHash });
    return encodeDelivered(usage, responseHash, await account.signTypedData(typedData));
  };
  const complete = async (request: ReceivedRequest): Promise<Script> => {
    const jobId = String(request.headers[wireHeaders.jobId]) as Hex;
    const message = { jobId, provider: account.address, requestHash: bodyHash(request.body) };
    return await options.script({
      jobId,
      request,
      account,
      domain,
      streamed: /"stream"\s*:\s*true/.test(request.body),
      acknowledgement: await account.signTypedData(acknowledgementTypedData(domain, message)),
      state: async (usage, responseHash) => await state(jobId, usage, responseHash),
    });
  };
  const tell = async (jobId: Hex): Promise<Script> => {
    const statement = await provider.statementOf(jobId);
    return statement === undefined
      ? jsonAnswer(404, { error: { message: "unknown", code: "job_not_found" } })
      : jsonAnswer(200, { jobId, status: "delivered", partial: true, statement: JSON.parse(statement) as unknown });
  };
  const upstream = await startScriptedUpstream((request) => {
    const route = /^\/v1\/jobs\/(0x[0-9a-f]{64})(\/receipt)?$/.exec(request.path);
    const jobId = route?.[1] as Hex | undefined;
    if (jobId === undefined) {
      completions.push(request);
      return later(complete(request));
    }
    if (route?.[2] === undefined) return later(tell(jobId));
    const receipt = decodeDelivered(request.body);
    if (receipt !== undefined) receipts.push({ jobId, ...receipt });
    return jsonAnswer(200, { jobId, status: "receipted" });
  });

  const transport = http(rpcUrl);
  const chain = {
    id: chainId,
    name: "test",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [rpcUrl] } },
  };
  const reader = createPublicClient({ transport, pollingInterval: 20, cacheTime: 0 });
  const mined = async (hash: unknown): Promise<void> => {
    const receipt = await reader.waitForTransactionReceipt({ hash: String(hash) as Hex });
    if (receipt.status !== "success") throw new Error(`the transaction ${String(hash)} was reverted`);
  };
  const send = async (to: Address, data: Hex): Promise<void> => {
    const wallet = createWalletClient({ account, chain, transport });
    // A fixed bound: what a call costs may change between an estimate and its block.
    await mined(await wallet.sendTransaction({ to, data, gas: 2_000_000n }));
  };
  const register = async (): Promise<void> => {
    const { registry, token } = deployment;
    await rpcCall(rpcUrl, "hardhat_setBalance", [account.address, numberToHex(10n ** 18n)]);
    // By the node's own hand, so that many can be registered at once: it counts the funder's nonces itself.
    const data = encodeFunctionData({ abi: testTokenAbi, functionName: "mint", args: [account.address, stake] });
    await mined(
      await rpcCall(rpcUrl, "eth_sendTransaction", [{ from: network.funder.account.address, to: token, data }]),
    );
    const approve = { abi: testTokenAbi, functionName: "approve", args: [registry, stake] } as const;
    await send(token, encodeFunctionData(approve));
    const endpoint = options.endpoint?.replace("PORT", new URL(upstream.url).port) ?? upstream.url;
    const own = account.address;
    const joining = { abi: providerRegistryAbi, functionName: "register", args: [own, own, endpoint, stake] } as const;
    await send(registry, encodeFunctionData(joining));
    const context = options.contextLength ?? 32_768;
    const offering = {
      abi: providerRegistryAbi,
      functionName: "setOffering",
      args: [model, price, price, context],
    } as const;
    await send(registry, encodeFunctionData(offering));
  };

  const provider: HostileProvider = {
    address: account.address,
    account,
    url: upstream.url,
    completions,
    get connections() {
      return upstream.connections;
    },
    receipts,
    statementOf: async () => await Promise.resolve(undefined),
    state,
    completeJob: async (jobId, usage, responseHash, signature) => {
      const amounts = { inputTokens: BigInt(usage.inputTokens), outputTokens: BigInt(usage.outputTokens) };
      const args = [jobId, amounts, responseHash, signature] as const;
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "completeJob", args });
      await send(deployment.escrow, data);
    },
    ackJob: async (jobId) => {
      const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "ackJob", args: [jobId] });
      await send(deployment.escrow, data);
    },
    close: async () => {
      await upstream.close();
    },
  };
  try {
    await register();
  } catch (error) {
    await upstream.close();
    throw error;
  }
  return provider;
}

/** A script that is not known yet: its steps are played when they are. */
function later(script: Promise<Script>): Script {
  const steps: Step[] = [];
  steps.push({
    kind: "hold",
    until: script.then((known) => {
      steps.push(...known);
    }),
  });
  return steps;
}

/** The same bytes as another script, with a right acknowledgement in the head of its answer. */
export function acknowledging(script: Script): HostileScript {
  return ({ acknowledgement }) => withHeader(script, wireHeaders.acknowledgement, acknowledgement);
}

/** The same bytes as another script, with one more header in the head of its answer. */
export function withHeader(script: Script, name: string, value: string): Script {
  return script.map((step, index) => {
    if (index > 0 || step.kind !== "bytes") return step;
    const text = Buffer.from(step.bytes).toString("latin1");
    const lineEnd = text.indexOf("\r\n") + 2;
    if (!text.startsWith("HTTP/1.1 ") || lineEnd === 1) return step;
    const bytes = Buffer.from(`${text.slice(0, lineEnd)}${name}: ${value}\r\n${text.slice(lineEnd)}`, "latin1");
    return { ...step, bytes, cuts: [] };
  });
}

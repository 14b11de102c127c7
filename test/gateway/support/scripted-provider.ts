import { type Address, type Hex, keccak256, toHex, verifyTypedData } from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { bodyHash } from "../../../protocol/body-hash.ts";
import { acknowledgementTypedData, receiptTypedData, usageStatementTypedData } from "../../../protocol/messages.ts";
import type { Usage } from "../../../protocol/usage.ts";
import { decodeDelivered, encodeDelivered, wireHeaders } from "../../../protocol/wire.ts";
import {
  chunk,
  close,
  end,
  head,
  type ReceivedRequest,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
  type Step,
} from "../../support/scripted-upstream.ts";
import { jsonAnswer } from "../../support/upstream-scripts.ts";
import { providerRecord } from "../routing/support/registry.ts";
import type { FakeChain } from "./fake-chain.ts";
import { testTarget, walletKey } from "./test-settings.ts";

const walletAddress = privateKeyToAccount(walletKey).address;
const domain = { chainId: testTarget.chainId, escrow: testTarget.escrow };

/** What a scripted provider knows of the job that it answers. */
export interface ScriptedJob {
  readonly jobId: Hex;
  readonly request: ReceivedRequest;
  /** The OpenAI body. */
  readonly body: Record<string, unknown>;
  /** How many completions came before. */
  readonly index: number;
  acknowledge(): Promise<Hex>;
  state(usage: Usage, responseHash: Hex): Promise<string>;
}

/** Answers one completion; bytes as they go over the wire, acknowledgement included. */
export type ProviderScript = (job: ScriptedJob) => Script | Promise<Script>;

/** A provider that answers by a script, also under the path `/moved`, registered at a fake chain. */
export interface ScriptedProvider {
  readonly address: Address;
  readonly account: PrivateKeyAccount;
  readonly upstream: ScriptedUpstream;
  /** Completions that came, in order. */
  readonly completions: readonly ReceivedRequest[];
  /** Receipts that came with a valid signature. */
  readonly receipts: readonly { readonly jobId: Hex; readonly usage: Usage; readonly responseHash: Hex }[];
  /** Statement to give when asked for a job; undefined = 404. */
  statementOf: ((jobId: Hex) => Promise<string | undefined>) | undefined;
  /** False: receipts are taken, but no transaction follows. */
  settles: boolean;
  /** What stands before the provider answers a receipt with this, and the provider never sees it; undefined lets it pass. */
  receiptProxy: ((request: ReceivedRequest) => Script | undefined) | undefined;
  /** False: when asked for a job it names its stage without having signed for it. */
  showsConsent: boolean;
  /** A signed usage statement, as JSON text. */
  state(jobId: Hex, usage: Usage, responseHash: Hex): Promise<string>;
  close(): Promise<void>;
}

/** Options of `startScriptedProvider`. */
export interface ScriptedProviderOptions {
  readonly chain: FakeChain;
  readonly name: string;
  readonly script: ProviderScript;
  readonly models?: readonly string[];
  readonly maxConcurrentJobs?: number;
  readonly price?: bigint;
  readonly contextLength?: number;
}

export const scriptedModel = "scripted/model";

/** Starts a provider and registers it. */
export async function startScriptedProvider(options: ScriptedProviderOptions): Promise<ScriptedProvider> {
  const { chain, script } = options;
  const account = privateKeyToAccount(keccak256(toHex(options.name)));
  const completions: ReceivedRequest[] = [];
  const receipts: { jobId: Hex; usage: Usage; responseHash: Hex }[] = [];
  const state = async (jobId: Hex, usage: Usage, responseHash: Hex): Promise<string> => {
    const message = { jobId, provider: account.address, usage, responseHash };
    const signature = await account.signTypedData(usageStatementTypedData(domain, message));
    return encodeDelivered(usage, responseHash, signature);
  };
  const upstream = await startScriptedUpstream((request) => {
    const route = /^(?:\/moved)?\/v1\/jobs\/(0x[0-9a-f]{64})(\/receipt)?$/.exec(request.path);
    const jobId = route?.[1] as Hex | undefined;
    if (jobId !== undefined && route?.[2] === undefined) return deferred(statement(jobId));
    if (jobId !== undefined) return provider.receiptProxy?.(request) ?? deferred(receipt(jobId, request.body));
    const index = completions.push(request) - 1;
    return deferred(complete(request, index));
  });

  async function complete(request: ReceivedRequest, index: number): Promise<Script> {
    const jobId = request.headers[wireHeaders.jobId] as Hex;
    return await script({
      jobId,
      request,
      body: JSON.parse(request.body) as Record<string, unknown>,
      index,
      acknowledge: async () => await acknowledge(jobId, request),
      state: async (usage, responseHash) => await state(jobId, usage, responseHash),
    });
  }

  async function acknowledge(jobId: Hex, request: ReceivedRequest): Promise<Hex> {
    const message = { jobId, provider: account.address, requestHash: bodyHash(request.body) };
    return await account.signTypedData(acknowledgementTypedData(domain, message));
  }

  async function statement(jobId: Hex): Promise<Script> {
    const text = await provider.statementOf?.(jobId);
    if (text === undefined) return jsonAnswer(404, { error: { code: "job_not_found", message: "unknown" } });
    const request = completions.find(({ headers }) => headers[wireHeaders.jobId] === jobId);
    const acknowledgement =
      request === undefined || !provider.showsConsent ? undefined : await acknowledge(jobId, request);
    return jsonAnswer(200, {
      jobId,
      status: "delivered",
      acknowledgement,
      statement: JSON.parse(text) as unknown,
      partial: true,
    });
  }

  async function receipt(jobId: Hex, text: string): Promise<Script> {
    const decoded = decodeDelivered(text);
    if (decoded === undefined) return jsonAnswer(400, { error: { code: "invalid_request" } });
    const { inputTokens, outputTokens, responseHash, signature } = decoded;
    const usage = { inputTokens, outputTokens };
    const data = receiptTypedData(domain, { jobId, provider: account.address, usage, responseHash });
    if (!(await verifyTypedData({ ...data, address: walletAddress, signature }))) {
      return jsonAnswer(400, { error: { code: "invalid_receipt" } });
    }
    receipts.push({ jobId, usage, responseHash });
    if (provider.settles) queueMicrotask(() => chain.complete(jobId, usage, responseHash));
    return jsonAnswer(200, { jobId, status: "receipted" });
  }

  const provider: ScriptedProvider = {
    address: account.address,
    account,
    upstream,
    completions,
    receipts,
    statementOf: undefined,
    settles: true,
    receiptProxy: undefined,
    showsConsent: true,
    state,
    close: async () => await upstream.close(),
  };
  const price = options.price ?? 1_000_000n;
  chain.setProvider({
    ...providerRecord({
      address: account.address,
      maxConcurrentJobs: options.maxConcurrentJobs ?? 0,
      models: Object.fromEntries(
        (options.models ?? [scriptedModel]).map((model) => [
          model,
          { inputPrice: price, outputPrice: price, contextLength: options.contextLength ?? 8192 },
        ]),
      ),
    }),
    endpoint: upstream.url,
  });
  return provider;
}

/** A script that is not known yet: its steps are played when they are. */
function deferred(script: Promise<Script>): Script {
  const steps: Step[] = [];
  const ready = script.then((known) => {
    steps.push(...known);
  });
  steps.push({ kind: "hold", until: ready });
  return steps;
}

/** Answers every job with the same bytes, its acknowledgement put into the head. */
export function acknowledged(script: Script): ProviderScript {
  return async (job) => {
    const header = `${wireHeaders.acknowledgement}: ${await job.acknowledge()}\r\n`;
    return script.map((step) => {
      if (step.kind !== "bytes") return step;
      const text = Buffer.from(step.bytes).toString("latin1");
      if (!text.startsWith("HTTP/1.1 200")) return step;
      const lineEnd = text.indexOf("\r\n") + 2;
      const bytes = Buffer.from(text.slice(0, lineEnd) + header + text.slice(lineEnd), "latin1");
      return { ...step, bytes, cuts: step.cuts.map((cut) => (cut >= lineEnd ? cut + header.length : cut)) };
    });
  };
}

/** A stream with these bytes as its body, then the provider's statement on it. */
export function stated(body: string, usage: Usage, responseHash = bodyHash(body)): ProviderScript {
  return async (job) => [
    head(200, { "content-type": "text/event-stream", [wireHeaders.acknowledgement]: await job.acknowledge() }),
    chunk(body),
    chunk(`: t4t-usage ${await job.state(usage, responseHash)}\n\n`),
    end,
  ];
}

/** A connection that is closed at once. */
export const deadScript: ProviderScript = () => [close];

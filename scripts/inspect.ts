/**
 * What the chain says of a provider or of a job.
 *
 *   node scripts/inspect.ts provider ADDRESS [--rpc URL] [--deployment FILE] [--json]
 *   node scripts/inspect.ts job ID           [--rpc URL] [--deployment FILE] [--json]
 *
 * Defaults: T4T_RPC_URL and T4T_DEPLOYMENT_FILE. Exits with 1 when there is no such provider or job, with 2 for bad arguments.
 */
import { parseArgs } from "node:util";
import { type Address, createPublicClient, type Hex, http, isAddress, isHex, size } from "viem";
import { jobEscrowAbi } from "../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../chain/abi/provider-registry.ts";
import { type Deployment, readDeployment } from "../chain/deployment.ts";
import { searchEvent } from "../gateway/jobs/event-search.ts";

const usage = "usage: inspect.ts provider ADDRESS | job ID, with --rpc URL and --deployment FILE";
const jobStatus = [
  "None",
  "Open",
  "Acknowledged",
  "CancelRequested",
  "Completed",
  "Declined",
  "Cancelled",
  "Expired",
  "Slashed",
];

class Refusal extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = error instanceof Refusal ? error.exitCode : 1;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rpc: { type: "string" }, deployment: { type: "string" }, json: { type: "boolean", default: false } },
  });
  const [kind, id = ""] = positionals;
  const rpc = values.rpc ?? process.env["T4T_RPC_URL"];
  const file = values.deployment ?? process.env["T4T_DEPLOYMENT_FILE"];
  if (rpc === undefined || file === undefined) throw new Refusal(2, usage);
  const look = kind === "provider" ? provider : kind === "job" ? job : undefined;
  if (look === undefined) throw new Refusal(2, usage);
  const found = await look(createPublicClient({ transport: http(rpc) }), await readDeployment(file), id);
  if (values.json) {
    console.log(JSON.stringify(found, (_, value: unknown) => (typeof value === "bigint" ? value.toString() : value)));
    return;
  }
  for (const [name, value] of Object.entries(found)) {
    if (!Array.isArray(value)) console.log(`${name.padEnd(18)} ${String(value)}`);
    else for (const row of value as readonly unknown[]) console.log(`${name.padEnd(18)} ${String(row)}`);
  }
}

type Client = ReturnType<typeof createPublicClient>;

async function provider(client: Client, { registry }: Deployment, id: string): Promise<object> {
  if (!isAddress(id)) throw new Refusal(2, `${id} is no address`);
  const contract = { address: registry, abi: providerRegistryAbi } as const;
  const row = await client.readContract({ ...contract, functionName: "providerOf", args: [id] }).catch(() => undefined);
  if (row === undefined) throw new Refusal(1, `no provider ${id}`);
  const offerings = await client.readContract({ ...contract, functionName: "offeringsPage", args: [id, 0n, 100n] });
  return {
    ...row,
    lastSeen: time(row.lastSeen),
    unbondingAt: row.unbondingAt === 0 ? "-" : time(row.unbondingAt),
    offerings: offerings.map(
      ({ modelId, inputPrice, outputPrice, contextLength }) =>
        `${JSON.stringify(modelId)} input ${inputPrice} output ${outputPrice} context ${contextLength}`,
    ),
  };
}

async function job(client: Client, { escrow, deployedAtBlock }: Deployment, id: string): Promise<object> {
  if (!isHex(id) || size(id) !== 32) throw new Refusal(2, `${id} is no job id`);
  const found = await client.readContract({ address: escrow, abi: jobEscrowAbi, functionName: "jobOf", args: [id] });
  if (found.status === 0) throw new Refusal(1, `no job ${id}`);
  if (jobStatus[found.status] === "Completed") {
    const { client: payer } = found;
    return { jobId: id, status: "Completed", client: payer, ...(await completed(client, escrow, deployedAtBlock, id)) };
  }
  return {
    ...found,
    status: jobStatus[found.status] ?? found.status,
    since: time(found.since),
    deadline: time(found.deadline),
  };
}

/** What the events tell of a completed job: a completion empties the fields of its row. What no event tells is left out. */
async function completed(client: Client, escrow: Address, deployedAtBlock: number, jobId: Hex): Promise<object> {
  const contract = { address: escrow, abi: jobEscrowAbi, args: { jobId }, strict: true } as const;
  const newest = await client.getBlockNumber();
  const completion = await searchEvent({
    from: BigInt(deployedAtBlock),
    to: newest,
    newestFirst: true,
    ask: async (fromBlock, toBlock) =>
      (await client.getContractEvents({ ...contract, eventName: "JobCompleted", fromBlock, toBlock }))[0],
  });
  if (completion === undefined) return {};
  const post = await searchEvent({
    from: BigInt(deployedAtBlock),
    to: completion.blockNumber,
    newestFirst: true,
    ask: async (fromBlock, toBlock) =>
      (await client.getContractEvents({ ...contract, eventName: "JobPosted", fromBlock, toBlock }))[0],
  });
  const { provider, payment, inputTokens, outputTokens, responseHash, signed } = completion.args;
  return {
    provider,
    ...(post === undefined ? {} : await posted(client, post)),
    payment,
    inputTokens,
    outputTokens,
    responseHash,
    signed,
    completedAt: await timeOf(client, completion.blockNumber),
    completedBy: completion.transactionHash,
  };
}

interface PostLog {
  readonly blockNumber: bigint;
  readonly transactionHash: Hex;
  readonly args: {
    readonly offeringId: number;
    readonly maxPayment: bigint;
    readonly unsignedLimit: bigint;
    readonly deadline: number;
  };
}

async function posted(client: Client, { args, blockNumber, transactionHash }: PostLog): Promise<object> {
  const { offeringId, maxPayment, unsignedLimit, deadline } = args;
  const postedAt = await timeOf(client, blockNumber);
  return { offeringId, maxPayment, unsignedLimit, deadline: time(deadline), postedAt, postedBy: transactionHash };
}

async function timeOf(client: Client, blockNumber: bigint): Promise<string> {
  return time(Number((await client.getBlock({ blockNumber })).timestamp));
}

/** Chain time as text that people and machines read. */
function time(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

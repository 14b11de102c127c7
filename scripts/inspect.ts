import { type Address, createPublicClient, type Hex, http, isAddress, isHex, size } from "viem";
import { jobEscrowAbi } from "../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../chain/abi/provider-registry.ts";
import { type Deployment, readDeployment } from "../chain/deployment.ts";
import { searchEvent } from "../gateway/jobs/event-search.ts";
import { CommandLineError, runCommand, text, toggle, type Values } from "./command-line.ts";

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

const command = {
  name: "npm run inspect --",
  about: "Prints what the chain says of a provider or of a job. Exits with 1 when there is no such one.",
  operands: "provider ADDRESS | job ID",
  options: {
    rpc: text("URL", "the chain's RPC; else the variable T4T_RPC_URL", undefined),
    deployment: text("FILE", "the deployment file; else the variable T4T_DEPLOYMENT_FILE", undefined),
    json: toggle("one JSON object instead of lines; amounts are texts"),
  },
  examples: [
    "provider 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --rpc http://127.0.0.1:8545 --deployment deployment.json",
  ],
};

/** The chain knows no such provider or job. */
class NotFoundError extends Error {
  override readonly name = "NotFoundError";
}

async function main(values: Values<typeof command.options>, operands: readonly string[]): Promise<number> {
  const [kind, id = "", ...others] = operands;
  const look = kind === "provider" ? provider : kind === "job" ? job : undefined;
  if (look === undefined || others.length > 0)
    throw new CommandLineError([`what to look at is provider ADDRESS or job ID, not "${operands.join(" ")}"`]);
  const rpc = values.rpc ?? process.env["T4T_RPC_URL"];
  const file = values.deployment ?? process.env["T4T_DEPLOYMENT_FILE"];
  const missing = [
    ...(rpc === undefined ? ["--rpc is missing, and T4T_RPC_URL is not set: give --rpc URL"] : []),
    ...(file === undefined
      ? ["--deployment is missing, and T4T_DEPLOYMENT_FILE is not set: give --deployment FILE"]
      : []),
  ];
  if (rpc === undefined || file === undefined) throw new CommandLineError(missing);
  try {
    print(await look(createPublicClient({ transport: http(rpc) }), await readDeployment(file), id), values.json);
    return 0;
  } catch (error) {
    if (error instanceof CommandLineError) throw error;
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}

function print(found: object, json: boolean): void {
  if (json) {
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
  if (!isAddress(id)) throw new CommandLineError([`"${id}" is no address`]);
  const contract = { address: registry, abi: providerRegistryAbi } as const;
  const row = await client.readContract({ ...contract, functionName: "providerOf", args: [id] }).catch(() => undefined);
  if (row === undefined) throw new NotFoundError(`no provider ${id}`);
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
  if (!isHex(id) || size(id) !== 32) throw new CommandLineError([`"${id}" is no job id: 0x and 64 hexadecimal digits`]);
  const found = await client.readContract({ address: escrow, abi: jobEscrowAbi, functionName: "jobOf", args: [id] });
  if (found.status === 0) throw new NotFoundError(`no job ${id}`);
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

await runCommand(command, main);

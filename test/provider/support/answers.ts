import { bodyHash } from "../../../protocol/body-hash.ts";
import { decodeDelivered, usageCommentPrefix, type UsageStatementWire, wireHeaders } from "../../../protocol/wire.ts";
import { until } from "../../support/until.ts";
import { jobOnChain, type Market, type PostedJob, type TestClient, testModel } from "./market.ts";
import type { TestNode } from "./node.ts";

/** Statuses of `IJobEscrow.JobStatus` that tests look for. */
export const onChain = {
  open: 1,
  acknowledged: 2,
  cancelRequested: 3,
  completed: 4,
  declined: 5,
  cancelled: 6,
  expired: 7,
} as const;

/** Body of a chat request. */
export function chatBody(fields: object = {}): string {
  return JSON.stringify({ model: testModel, messages: [{ role: "user", content: "Say something." }], ...fields });
}

/** A stream as a gateway sees it. */
export interface SeenStream {
  readonly status: number;
  /** Without the usage comment. */
  readonly body: string;
  readonly statement: UsageStatementWire | undefined;
  readonly acknowledgement: string | null;
  /** The connection broke before the end. */
  readonly isCut: boolean;
}

/** Reads a stream to its end, however it ends. */
export async function readStream(response: Response): Promise<SeenStream> {
  const pieces: Uint8Array[] = [];
  let isCut = false;
  try {
    for await (const piece of response.body ?? []) pieces.push(piece as Uint8Array);
  } catch {
    isCut = true;
  }
  const text = Buffer.concat(pieces).toString("utf8");
  const at = text.indexOf(`: ${usageCommentPrefix}`);
  const acknowledgement = response.headers.get(wireHeaders.acknowledgement);
  if (at === -1) return { status: response.status, body: text, statement: undefined, acknowledgement, isCut };
  const statement = decodeDelivered(text.slice(at + 2 + usageCommentPrefix.length).trim());
  return { status: response.status, body: text.slice(0, at), statement, acknowledgement, isCut };
}

/** Posts a job, streams it to its end and sends the receipt that belongs to it. */
export async function runJob(
  client: TestClient,
  node: TestNode,
  body = chatBody({ stream: true }),
): Promise<PostedJob & SeenStream> {
  const job = await client.post(node.address);
  const seen = await readStream(await client.request(node.url, job, body));
  if (seen.statement !== undefined) {
    const { inputTokens, outputTokens } = seen.statement;
    const receipt = await client.sendReceipt(
      node.url,
      node.address,
      job.jobId,
      { inputTokens, outputTokens },
      bodyHash(seen.body),
    );
    if (receipt.status !== 200) throw new Error(`the receipt was refused: ${await receipt.text()}`);
  }
  return { ...job, ...seen };
}

/** Waits until a job has a status on chain. */
export async function untilOnChain(market: Market, job: PostedJob, status: number, timeoutMs = 10_000): Promise<void> {
  await until(
    `job ${job.jobId} has status ${status}`,
    async () => (await jobOnChain(market, job.jobId)).status === status,
    timeoutMs,
  );
}

/** A job as its provider tells it. */
export async function jobAtProvider(node: { readonly url: string }, job: PostedJob): Promise<Record<string, unknown>> {
  const response = await fetch(`${node.url}/v1/jobs/${job.jobId}`);
  return (await response.json()) as Record<string, unknown>;
}

/** The code of an OpenAI-shaped error body. */
export async function errorCode(response: Response): Promise<string> {
  const body = (await response.json()) as { readonly error: { readonly code: string } };
  return body.error.code;
}

import { Pool } from "undici";

/** What one load run measured. Times are milliseconds from sending the request. */
export interface LoadResult {
  readonly requests: number;
  readonly failures: number;
  readonly seconds: number;
  readonly firstByteMs: readonly number[];
  readonly totalMs: readonly number[];
  /** Request ids in the order of completion, to look up what each was spent on. */
  readonly jobIds: readonly string[];
}

/** One load run. */
export interface LoadOptions {
  readonly origin: string;
  readonly path: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly connections: number;
  /** Requests in all. */
  readonly requests: number;
  /** Last bytes that a complete answer must end with. */
  readonly endsWith: string;
}

/** Sends `requests` requests over `connections` connections, each as soon as the one before it on its connection is answered in full. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const pool = new Pool(options.origin, {
    connections: options.connections,
    bodyTimeout: 60_000,
    headersTimeout: 60_000,
  });
  const firstByteMs: number[] = [];
  const totalMs: number[] = [];
  const jobIds: string[] = [];
  let failures = 0;
  let next = 0;
  const started = performance.now();
  const worker = async (): Promise<void> => {
    while (next < options.requests) {
      next += 1;
      const sentAt = performance.now();
      try {
        const answer = await pool.request({
          method: "POST",
          path: options.path,
          headers: { "content-type": "application/json", ...options.headers },
          body: options.body,
        });
        let first: number | undefined;
        let tail = "";
        for await (const chunk of answer.body) {
          first ??= performance.now();
          tail = (tail + (chunk as Buffer).toString("latin1")).slice(-64);
        }
        if (answer.statusCode !== 200 || !tail.trimEnd().endsWith(options.endsWith)) {
          failures += 1;
          continue;
        }
        firstByteMs.push((first ?? performance.now()) - sentAt);
        totalMs.push(performance.now() - sentAt);
        const jobId = answer.headers["x-t4t-job-id"];
        if (typeof jobId === "string") jobIds.push(jobId);
      } catch {
        failures += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: options.connections }, worker));
  const seconds = (performance.now() - started) / 1000;
  await pool.close();
  return { requests: totalMs.length, failures, seconds, firstByteMs, totalMs, jobIds };
}

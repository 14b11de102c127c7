import { once } from "node:events";
import type { Worker } from "node:worker_threads";

/** The next worker thread that this process starts: a test can make it die. Call before the start. */
export async function nextThread(): Promise<Worker> {
  const [worker] = (await once(process, "worker")) as [Worker];
  return worker;
}

import { setTimeout as delay } from "node:timers/promises";
import { createPublicClient, http } from "viem";

/** Resolves with the chain id as soon as the RPC answers. Asks every 50 ms until `signal` fires, then rejects with its reason. */
export async function rpcReady(rpcUrl: string, signal: AbortSignal): Promise<number> {
  const client = createPublicClient({ transport: http(rpcUrl, { retryCount: 0, timeout: 2000 }) });
  for (;;) {
    signal.throwIfAborted();
    try {
      return await client.getChainId();
    } catch {
      await delay(50, undefined, { signal });
    }
  }
}

/** Resolves as soon as `url` answers 200. Asks every 50 ms until `signal` fires, then rejects with its reason. */
export async function httpReady(url: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    try {
      const response = await fetch(url, { signal });
      await response.arrayBuffer();
      if (response.status === 200) return;
    } catch {
      signal.throwIfAborted();
    }
    await delay(50, undefined, { signal });
  }
}

import { createPublicClient, http } from "viem";

/** A chain or backend that was named does not answer; the message names the variable, the URL and the cure. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
}

const answerTimeoutMs = 5000;

/** Chain id at an RPC that is said to run. Throws `UnreachableError` when it does not answer within 5 s. */
export async function chainIdAt(rpcUrl: string): Promise<number> {
  const client = createPublicClient({ transport: http(rpcUrl, { retryCount: 0, timeout: answerTimeoutMs }) });
  try {
    return await client.getChainId();
  } catch (error) {
    throw new UnreachableError(
      `T4T_RPC_URL: no chain answers at ${hostOf(rpcUrl)} (${reasonOf(error)}); start it, or leave the variable out for the embedded chain`,
    );
  }
}

/** Makes sure that something speaks HTTP at a backend's URL. Throws `UnreachableError` when nothing answers within 5 s. */
export async function requireBackend(backendUrl: string): Promise<void> {
  try {
    const response = await fetch(backendUrl, { signal: AbortSignal.timeout(answerTimeoutMs), redirect: "manual" });
    await response.body?.cancel();
  } catch (error) {
    throw new UnreachableError(
      `T4T_BACKEND_URL: nothing answers at ${hostOf(backendUrl)} (${reasonOf(error)}); start the backend, or leave the variable out for the embedded model`,
    );
  }
}

/** Without path and credentials: URLs of providers hold keys. */
function hostOf(url: string): string {
  return new URL(url).host;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error && "code" in cause && typeof cause.code === "string") return cause.code;
  if ("shortMessage" in error && typeof error.shortMessage === "string") return error.shortMessage;
  return error.message;
}

import { type Address, createPublicClient, erc20Abi, http } from "viem";

/** How a token's amounts are told to people. */
export interface TokenUnit {
  readonly symbol: string;
  readonly decimals: number;
}

/** Reads a token's symbol and decimals; a token that says neither is told of in its smallest unit. */
export async function readTokenUnit(rpcUrl: string, token: Address): Promise<TokenUnit> {
  const client = createPublicClient({ transport: http(rpcUrl) });
  const contract = { address: token, abi: erc20Abi } as const;
  try {
    const [symbol, decimals] = await Promise.all([
      client.readContract({ ...contract, functionName: "symbol" }),
      client.readContract({ ...contract, functionName: "decimals" }),
    ]);
    return { symbol: symbol.replaceAll(/[^\x21-\x7e]/g, "").slice(0, 16), decimals };
  } catch {
    return { symbol: `of the smallest unit of ${token}`, decimals: 0 };
  }
}

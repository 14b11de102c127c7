import type { GatewaySettings } from "../../../gateway/settings.ts";

/** Public knowledge: the first key of every development chain. */
export const walletKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

export const testTarget = {
  chainId: 31_337,
  registry: "0x5FbDB2315678afecb367f032d93F642f64180aa3",
  escrow: "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512",
  token: undefined,
  deployedAtBlock: 1,
} as const;

/** Settings of a gateway under test: short times, free ports, private endpoints. */
export function testSettings(change: Partial<GatewaySettings> = {}): GatewaySettings {
  return {
    chain: {
      rpcUrl: "http://127.0.0.1:1",
      wsUrl: undefined,
      rpcTimeoutMs: 1000,
      pollMs: 20,
      confirmations: 1,
      feeBumpMs: 30_000,
      maxFeePerGas: undefined,
      dataDir: "unused",
      journalKeepMs: 0,
      target: testTarget,
      privateKey: walletKey,
    },
    host: "127.0.0.1",
    port: 0,
    metricsPort: undefined,
    apiKeys: [],
    allowUnauthenticated: false,
    maxBodyBytes: 20 * 1024 * 1024,
    maxAnswerBytes: 1024 * 1024,
    strategy: "cheapest",
    manualProvider: undefined,
    allowedStrategies: [],
    routingFile: undefined,
    maxPrice: undefined,
    waitLimitMs: 5000,
    waitPollMs: 200,
    maxWaiting: 1000,
    reputationHalfLifeSeconds: 604_800,
    deadlineSeconds: 900,
    defaultMaxOutputTokens: 1000,
    headroomRatio: 0.2,
    unsignedLimitRatio: 0.1,
    maxEscrowPerJob: undefined,
    escrowTarget: undefined,
    maxSlashFee: undefined,
    allowPrivateEndpoints: true,
    connectTimeoutMs: 1000,
    ackTimeoutMs: 1000,
    idleTimeoutMs: 1000,
    commitGraceMs: 1500,
    keepAliveMs: 8000,
    clientStallMs: 5000,
    drainMs: 1000,
    logLevel: "silent",
    ...change,
  };
}

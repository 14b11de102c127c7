// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRefusalErrors} from "./IRefusalErrors.sol";

/// @title IJobEscrow
/// @notice Holds the money of open jobs. Clients and providers have internal balances, so a job moves no tokens.
/// @dev Amounts are in the smallest unit of the token; prices in such units per one million tokens of text; times in Unix seconds.
///
/// Callers: the *client* of a job (who posted it), its *provider* (owner or operator in the registry), the *contract owner*, anyone.
///
/// Life of a job. No other change is possible, and no end is ever left.
///
///   from             to                by                                            when
///   (none)           Open              postJob, postJobAny: the client               a slot and the money are there
///   Open             Acknowledged      ackJob: the provider                          any time
///   Open             CancelRequested   requestCancel: the client                     from ackWindow after posting on
///   CancelRequested  Acknowledged      ackJob: the provider                          any time
///   CancelRequested  Cancelled         finalizeCancel: anyone                        from responseWindow after the request on
///   any of the three Completed         completeJob, completeJobs: the provider       any time
///   any of the three Declined          declineJob: the provider                      any time
///   any of the three Expired           expireJobs: anyone                            from the deadline on
///   any of the three Slashed           slashJob: the client, with acknowledgement    from the deadline on
///
/// "Any time" includes the time after the deadline or the response window, while nobody has ended the job: who comes first decides.
/// The deadline needs neither party, so no job can be left without an end. Every end frees the job's slot exactly once, and
/// divides `maxPayment` between provider (payment) and client (the rest). A slot that another market freed already, which only a
/// dishonest one does, holds up no end but {slashJob}: the money goes where it belongs. {SlotsMissing} says it once the registry counts
/// fewer slots of the provider than end; as long as other jobs of it go on, it cannot be told.
///
/// Money is credited to internal balances only; tokens move in deposits and withdrawals. What arrives is counted, so fees on
/// transfer are the depositor's. Tokens whose balances change by themselves (rebasing) are not supported.
interface IJobEscrow is IRefusalErrors {
    // ---------------------------------------------------------------------------------------------------------- types

    /// @notice Life of a job. `Completed`, `Declined`, `Cancelled`, `Expired` and `Slashed` are terminal.
    enum JobStatus {
        None,
        Open,
        Acknowledged,
        CancelRequested,
        Completed,
        Declined,
        Cancelled,
        Expired,
        Slashed
    }

    /// @notice What a client asks for when it posts.
    /// @param nonce Chosen by the client; with chain, escrow and client it makes the job id, so the same nonce cannot be posted twice.
    /// @param modelKey keccak256 of the UTF-8 bytes of the model id.
    /// @param maxPayment Amount locked; >= `minPayment`.
    /// @param unsignedLimit Most that the provider can claim without the client's receipt; <= maxPayment.
    /// @param maxInputPrice Highest input price accepted.
    /// @param maxOutputPrice Highest output price accepted.
    /// @param deadline Time from which anyone may expire the job; minDuration..maxDuration from now.
    struct JobTerms {
        uint256 nonce;
        bytes32 modelKey;
        uint96 maxPayment;
        uint96 unsignedLimit;
        uint96 maxInputPrice;
        uint96 maxOutputPrice;
        uint40 deadline;
    }

    /// @notice What was used, as counted by the backend.
    struct Usage {
        uint64 inputTokens;
        uint64 outputTokens;
    }

    /// @notice One item of a batch, as the arguments of {completeJob}. An empty signature claims without a receipt.
    struct Completion {
        bytes32 jobId;
        Usage usage;
        bytes32 responseHash;
        bytes clientSignature;
    }

    /// @notice A job as returned by views. Of a completed job only `jobId`, `status`, `client` and `unsignedLimit` are left: a
    /// completion empties the slot of the other fields, for the refund. Of any other job, ended or not, all are there.
    /// @param offeringId The registry's record from which `provider`, `modelKey` and the prices come.
    /// @param since Time of the last of posting, acknowledgement and cancel request; an end does not change it.
    struct JobView {
        bytes32 jobId;
        JobStatus status;
        address client;
        address provider;
        bytes32 modelKey;
        uint48 offeringId;
        uint96 maxPayment;
        uint96 unsignedLimit;
        uint96 inputPrice;
        uint96 outputPrice;
        uint40 since;
        uint40 deadline;
    }

    /// @notice Money of one account. `locked` is the sum of maxPayment of its non-terminal jobs as a client.
    struct AccountView {
        uint128 free;
        uint128 locked;
    }

    // --------------------------------------------------------------------------------------------------------- events

    /// @notice `account` was credited with `amount`, which `from` paid.
    event Deposited(address indexed account, address indexed from, uint256 amount);
    /// @notice `amount` of the free balance of `account` was sent to `to`.
    event Withdrawn(address indexed account, address indexed to, uint256 amount);
    /// @notice A job is open: its money is locked, its slot is taken, its price is that of the record `offeringId`.
    event JobPosted(
        bytes32 indexed jobId,
        address indexed client,
        address indexed provider,
        uint48 offeringId,
        uint96 maxPayment,
        uint96 unsignedLimit,
        uint40 deadline
    );
    /// @notice The provider said on chain that it works on the job.
    event JobAcknowledged(bytes32 indexed jobId, address indexed provider);
    /// @notice The job was paid. `signed` tells a client's receipt from a claim under `unsignedLimit`.
    event JobCompleted(
        bytes32 indexed jobId,
        address indexed provider,
        uint96 payment,
        uint64 inputTokens,
        uint64 outputTokens,
        bytes32 responseHash,
        bool signed
    );
    /// @notice The provider gave the job back; the client has its money.
    event JobDeclined(bytes32 indexed jobId, address indexed provider);
    /// @notice The client wants its money back; from `respondBy` on anyone can give it.
    event JobCancelRequested(bytes32 indexed jobId, address indexed provider, uint40 respondBy);
    /// @notice The cancel request was not answered; the client has its money.
    event JobCancelled(bytes32 indexed jobId, address indexed provider);
    /// @notice The deadline passed; the client has its money.
    event JobExpired(bytes32 indexed jobId, address indexed provider);
    /// @notice The deadline of an acknowledged job passed; the client has its money, the provider lost `burnt` of its stake.
    event JobSlashed(bytes32 indexed jobId, address indexed provider, uint96 burnt);
    /// @notice An item of a batch that was skipped, and the error that it alone would have reverted with.
    event CompletionSkipped(bytes32 indexed jobId, bytes reason);
    /// @notice New posts are stopped, or possible again.
    event Paused(address account);
    event Unpaused(address account);
    /// @notice An item of {expireJobs} that was not expired, and what stood in the way: its status (also `None`), or its deadline.
    event ExpirySkipped(bytes32 indexed jobId, JobStatus status, uint40 deadline);
    /// @notice Jobs ended, and the registry counted `count` slots fewer as taken than they had: another market freed those. An alarm: it
    /// never comes while every market is honest, and may not come while other jobs of the provider are open.
    event SlotsMissing(address indexed provider, uint32 count);

    // --------------------------------------------------------------------------------------------------------- errors

    /// @notice Zero, or tokens of which nothing arrived.
    error InvalidAmount(uint256 amount);
    /// @notice With `amount` the account would hold more than `max`; far above the supply of any sane token.
    error BalanceTooLarge(address account, uint256 amount, uint256 max);
    /// @notice The free balance is too small.
    error InsufficientBalance(address account, uint256 free, uint256 required);
    /// @notice Jobs must be worth a minimum, so that taking up slots costs something.
    error PaymentBelowMinimum(uint96 maxPayment, uint96 minPayment);
    /// @notice The claim without receipt cannot be larger than what is locked.
    error UnsignedLimitAbovePayment(uint96 unsignedLimit, uint96 maxPayment);
    /// @notice Too near or too far.
    error DeadlineOutOfBounds(uint40 deadline, uint256 earliest, uint256 latest);
    /// @notice The client has used this nonce. Nothing was changed; the job may be in any state.
    error JobAlreadyPosted(bytes32 jobId);
    /// @notice No such job.
    error JobNotFound(bytes32 jobId);
    /// @notice The job is not in a state from which this call is allowed.
    error JobStatusMismatch(bytes32 jobId, JobStatus status);
    /// @notice An empty list.
    error NoCandidates();
    /// @notice A list longer than `max`.
    error TooManyCandidates(uint256 count, uint256 max);
    /// @notice No candidate could take the job; one reason for each, in order.
    error NoProviderAvailable(uint8[] refusals);
    /// @notice The receipt is not the client's for this job, this provider and these figures.
    error InvalidClientSignature(bytes32 jobId);
    /// @notice The acknowledgement is not the provider's for this job and request.
    error InvalidAcknowledgement(bytes32 jobId);
    /// @notice The caller is not the job's client.
    error NotClient(bytes32 jobId, address caller);
    /// @notice The caller is neither owner nor operator of the job's provider.
    error NotJobProvider(bytes32 jobId, address caller);
    /// @notice The caller is neither owner nor operator of that provider.
    error NotProviderAccount(address provider, address caller);
    /// @notice The provider has until `earliest` to take the job up.
    error CancelTooEarly(bytes32 jobId, uint256 earliest);
    /// @notice The provider has until `until` to answer the cancel request.
    error ResponseWindowOpen(bytes32 jobId, uint256 until);
    /// @notice The provider has until the deadline.
    error DeadlineNotReached(bytes32 jobId, uint40 deadline);
    /// @notice A batch longer than `max`.
    error TooManyItems(uint256 count, uint256 max);
    /// @notice An address is missing.
    error ZeroAddress();
    /// @notice Where tokens would be stuck: the escrow itself, the registry, the token, any market.
    error InvalidRecipient(address to);
    /// @notice It is not paused.
    error ExpectedPause();
    /// @notice A constructor parameter, named in ASCII, is out of range.
    error InvalidParameter(bytes32 name);

    // ---------------------------------------------------------------------------------------------------------- money

    /// @notice Credits the caller with what the escrow receives of `amount` tokens.
    /// @dev Anyone; approve the tokens to the escrow first. Emits {Deposited} with the amount received. Requires that something
    /// arrived ({InvalidAmount}) and that the account does not pass 2^112 - 1 ({BalanceTooLarge}).
    function deposit(uint256 amount) external;

    /// @notice As {deposit}, for another account. The caller pays.
    /// @dev Anyone. Requires `account` neither zero ({ZeroAddress}) nor where most could not withdraw ({InvalidRecipient}): the
    /// escrow, and what {IProviderRegistry-isDeadEnd} names.
    function depositFor(address account, uint256 amount) external;

    /// @notice As {deposit}, with an EIP-2612 permit of the caller in place of an approval.
    /// @dev Anyone. A permit that somebody else already used, or that the token refuses, is not an error when the allowance is
    /// there anyway.
    function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s) external;

    /// @notice Sends `amount` of the caller's free balance to `to`.
    /// @dev Anyone, for itself. Emits {Withdrawn}. Requires `amount` > 0 ({InvalidAmount}) and free ({InsufficientBalance}), `to`
    /// neither zero ({ZeroAddress}) nor, unless it is the caller itself, the escrow or what {IProviderRegistry-isDeadEnd} names
    /// ({InvalidRecipient}). Never paused.
    function withdraw(uint256 amount, address to) external;

    /// @notice Sends `amount` of a provider's free balance, its earnings, to its payout address.
    /// @dev Owner or operator of the provider ({NotProviderAccount}): the hot key can collect, but not choose where to. Emits
    /// {Withdrawn}. Requires as {withdraw}, without its exception for the caller; a payout address that has become a dead end since must be
    /// set anew. Never paused.
    function withdrawProvider(address provider, uint256 amount) external;

    // ----------------------------------------------------------------------------------------------------------- jobs

    /// @notice Posts a job: locks `terms.maxPayment`, takes one slot of `provider`, keeps its present price.
    /// @dev Anyone with a balance. Emits {JobPosted}, and the registry's SlotsChanged.
    ///
    /// Reverts, in this order: {PaymentBelowMinimum}; {UnsignedLimitAbovePayment}; {DeadlineOutOfBounds} unless the deadline is
    /// `minDuration`..`maxDuration` from now; {JobAlreadyPosted}; {InsufficientBalance}; {NotMarket} or {EnforcedPause} when the
    /// escrow may take no slots; the provider's refusal ({ProviderNotRegistered}, {ProviderInactive}, {ProviderStale},
    /// {OfferingNotFound}, {PriceAboveLimit}, {ProviderAtCapacity}, {InsufficientStake}). No money moves then.
    /// @return jobId `jobIdOf(client, terms.nonce)`.
    function postJob(address provider, JobTerms calldata terms) external returns (bytes32 jobId);

    /// @notice Gives the job to the first of 1..MAX_CANDIDATES candidates that can take it.
    /// @dev As {postJob}. Requires {NoCandidates}, {TooManyCandidates}; a candidate's refusal does not revert, but when all
    /// refuse it reverts {NoProviderAvailable} with one {IProviderRegistry-Refusal} each.
    /// @return jobId `jobIdOf(client, terms.nonce)`.
    /// @return provider The candidate that got it.
    function postJobAny(address[] calldata candidates, JobTerms calldata terms)
        external
        returns (bytes32 jobId, address provider);

    /// @notice The provider shows on chain that it works: a pending cancel request falls, none can be made any more.
    /// @dev The provider ({NotJobProvider}), from `Open` or `CancelRequested` ({JobStatusMismatch}). Emits {JobAcknowledged}. A
    /// good job does not need it: the signed `Acknowledgement` is handed over off chain.
    function ackJob(bytes32 jobId) external;

    /// @notice Pays the provider, refunds the rest to the client, frees the slot.
    /// @dev The provider only ({NotJobProvider}), with and without a receipt: a client that could send its own receipt would
    /// settle a delivered job at zero. From any status that is not an end ({JobNotFound}, {JobStatusMismatch}). Emits {JobCompleted}.
    ///
    /// Payment: floor((inputTokens * inputPrice + outputTokens * outputPrice) / 1e6), at the prices of the job's own record: rounded
    /// down, against the claimant. At most `maxPayment` with a receipt, at most `unsignedLimit` without.
    /// @param usage What was used; with a receipt, exactly what the receipt says.
    /// @param responseHash Hash of the answer; with a receipt, exactly what the receipt says. Without, the provider's word.
    /// @param clientSignature EIP-712 `Receipt` of the client (65 bytes of a key, or what its ERC-1271 contract accepts for at most
    /// 200,000 gas), else {InvalidClientSignature}; empty to claim without.
    function completeJob(bytes32 jobId, Usage calldata usage, bytes32 responseHash, bytes calldata clientSignature)
        external;

    /// @notice Completes up to MAX_BATCH jobs; a bad item emits {CompletionSkipped} and harms no other.
    /// @dev As {completeJob}, item by item, in order ({TooManyItems}). The slots of all that were completed are freed together, after
    /// the last: the registry emits one SlotsChanged for the batch, whatever the offerings, and none when no item was completed.
    function completeJobs(Completion[] calldata items) external;

    /// @notice The provider gives the job back: full refund, no penalty, slot freed.
    /// @dev The provider ({NotJobProvider}), from any status that is not an end ({JobNotFound}, {JobStatusMismatch}). Emits
    /// {JobDeclined}.
    function declineJob(bytes32 jobId) external;

    /// @notice The client wants its money back.
    /// @dev The client ({NotClient}), from `Open` ({JobNotFound}, {JobStatusMismatch}), from `ackWindow` after posting on
    /// ({CancelTooEarly}). Emits {JobCancelRequested}.
    function requestCancel(bytes32 jobId) external;

    /// @notice Refunds a job whose cancel request was not answered, frees its slot.
    /// @dev Anyone, from `CancelRequested` ({JobNotFound}, {JobStatusMismatch}), from `responseWindow` after the request on
    /// ({ResponseWindowOpen}). Emits {JobCancelled}.
    function finalizeCancel(bytes32 jobId) external;

    /// @notice Refunds every job whose deadline has passed and frees its slot; skips the others ({ExpirySkipped}).
    /// @dev Anyone; at most MAX_BATCH ({TooManyItems}). Emits {JobExpired} for each that ended. Neighbours with the same offering share
    /// the release of their slots: the registry emits one SlotsChanged for each such run, with the state after its last.
    function expireJobs(bytes32[] calldata jobIds) external;

    /// @notice Refunds a job that was acknowledged and not delivered by its deadline, and burns the provider's collateral for it.
    /// @dev The client ({NotClient}), from any status that is not an end ({JobNotFound}, {JobStatusMismatch}), from the deadline on
    /// ({DeadlineNotReached}). Requires the provider's EIP-712 `Acknowledgement` of this job ({InvalidAcknowledgement}): by its
    /// owner, key or contract (ERC-1271), or by a key that is its operator, or was after the job was posted. A contract as operator
    /// signs nothing that binds: replaced, it could not be asked any more. A contract as owner is asked when it is slashed, so it can
    /// take its consent back: a client that relies on one wants a key's. Emits {JobSlashed}.
    ///
    /// Burns `collateralBps` of `maxPayment`, rounded down, and never more than is staked. Nobody gains it. A provider that ends
    /// the job in time, also by declining it, loses nothing. Reverts with the registry's {SlotUnderflow} when another market freed
    /// slots of the provider and none is counted any more: then {expireJobs} gives the money back.
    function slashJob(bytes32 jobId, bytes32 requestHash, bytes calldata acknowledgement) external;

    // ---------------------------------------------------------------------------------------------------------- owner

    /// @notice Stops new posts; no exit is ever stopped.
    /// @dev Contract owner only. Emits {Paused}, and the registry's MarketSuspended. Requires not to be paused ({EnforcedPause}).
    function pause() external;

    /// @notice Makes posts possible again.
    /// @dev Contract owner only. Emits {Unpaused}, and the registry's MarketSuspended. Requires to be paused ({ExpectedPause}).
    function unpause() external;

    // ---------------------------------------------------------------------------------------------------------- views

    /// @notice keccak256(abi.encode(chainid, escrow, client, nonce)).
    function jobIdOf(address client, uint256 nonce) external view returns (bytes32);
    /// @notice A job; all zero, with status `None`, when there is none. See {JobView} for what is left of a completed one.
    function jobOf(bytes32 jobId) external view returns (JobView memory);
    /// @notice Money of an account, as client and as provider together.
    function accountOf(address account) external view returns (AccountView memory);
    /// @notice Payment for a usage under a record's prices before the cap at maxPayment, rounded down.
    function paymentFor(uint48 offeringId, Usage calldata usage) external view returns (uint256);
    /// @notice Whether new posts are stopped.
    function paused() external view returns (bool);
    /// @notice The ERC-20 token of payments; the registry's.
    function token() external view returns (address);
    /// @notice The provider registry.
    function registry() external view returns (address);
    /// @notice Smallest `maxPayment` of a job.
    function minPayment() external view returns (uint96);
    /// @notice Seconds from posting to the nearest deadline.
    function minDuration() external view returns (uint40);
    /// @notice Seconds from posting to the farthest deadline.
    function maxDuration() external view returns (uint40);
    /// @notice Seconds from posting in which the client cannot ask for a cancellation.
    function ackWindow() external view returns (uint40);
    /// @notice Seconds from the cancel request in which the provider can answer undisturbed.
    function responseWindow() external view returns (uint40);
    /// @notice Most candidates of {postJobAny}.
    function MAX_CANDIDATES() external view returns (uint256);
    /// @notice Most items of a batch.
    function MAX_BATCH() external view returns (uint256);
    /// @notice EIP-712 `Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)`.
    function RECEIPT_TYPEHASH() external view returns (bytes32);
    /// @notice EIP-712 `Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)`.
    function ACKNOWLEDGEMENT_TYPEHASH() external view returns (bytes32);
    /// @notice Version of the EIP-712 domain, whose name is "T4T JobEscrow".
    function version() external view returns (string memory);
}

// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRefusalErrors} from "./IRefusalErrors.sol";

/// @title IJobEscrow
/// @notice Holds the money of open jobs. Clients and providers have internal balances, so a job moves no tokens.
/// @dev Amounts are in the smallest unit of the token; prices in such units per one million tokens of text; times in Unix seconds.
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

    /// @notice One item of a batch. An empty signature claims without a receipt.
    struct Completion {
        bytes32 jobId;
        Usage usage;
        bytes32 responseHash;
        bytes clientSignature;
    }

    /// @notice A job as returned by views.
    /// @param since Time of posting, of the acknowledgement, or of the cancel request, by status.
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

    event Deposited(address indexed account, address indexed from, uint256 amount);
    event Withdrawn(address indexed account, address indexed to, uint256 amount);
    event JobPosted(
        bytes32 indexed jobId,
        address indexed client,
        address indexed provider,
        uint48 offeringId,
        uint96 maxPayment,
        uint96 unsignedLimit,
        uint40 deadline
    );
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
    event JobDeclined(bytes32 indexed jobId, address indexed provider);
    event JobCancelRequested(bytes32 indexed jobId, address indexed provider, uint40 respondBy);
    event JobCancelled(bytes32 indexed jobId, address indexed provider);
    event JobExpired(bytes32 indexed jobId, address indexed provider);
    event JobSlashed(bytes32 indexed jobId, address indexed provider, uint96 burnt);
    /// @notice An item of a batch that was skipped, and the error that it alone would have reverted with.
    event CompletionSkipped(bytes32 indexed jobId, bytes reason);
    event Paused(address account);
    event Unpaused(address account);
    event ExpirySkipped(bytes32 indexed jobId, JobStatus status, uint40 deadline);

    // --------------------------------------------------------------------------------------------------------- errors

    error InvalidAmount(uint256 amount);
    /// @notice With `amount` the account would hold more than `max`; far above the supply of any sane token.
    error BalanceTooLarge(address account, uint256 amount, uint256 max);
    error InsufficientBalance(address account, uint256 free, uint256 required);
    error PaymentBelowMinimum(uint96 maxPayment, uint96 minPayment);
    error UnsignedLimitAbovePayment(uint96 unsignedLimit, uint96 maxPayment);
    error DeadlineOutOfBounds(uint40 deadline, uint256 earliest, uint256 latest);
    error JobAlreadyPosted(bytes32 jobId);
    error JobNotFound(bytes32 jobId);
    /// @notice The job is not in a state from which this call is allowed.
    error JobStatusMismatch(bytes32 jobId, JobStatus status);
    error NoCandidates();
    error TooManyCandidates(uint256 count, uint256 max);
    /// @notice No candidate could take the job; one reason for each, in order.
    error NoProviderAvailable(uint8[] refusals);
    error InvalidClientSignature(bytes32 jobId);
    error InvalidAcknowledgement(bytes32 jobId);
    error NotClient(bytes32 jobId, address caller);
    error NotJobProvider(bytes32 jobId, address caller);
    error NotProviderAccount(address provider, address caller);
    error CancelTooEarly(bytes32 jobId, uint256 earliest);
    error ResponseWindowOpen(bytes32 jobId, uint256 until);
    error DeadlineNotReached(bytes32 jobId, uint40 deadline);
    error TooManyItems(uint256 count, uint256 max);
    error ZeroAddress();
    error InvalidRecipient(address to);
    error ExpectedPause();
    error InvalidParameter(bytes32 name);

    // ---------------------------------------------------------------------------------------------------------- money

    /// @notice Credits the caller with what the escrow receives of `amount` tokens. Emits {Deposited}.
    function deposit(uint256 amount) external;
    /// @notice Credits another account.
    function depositFor(address account, uint256 amount) external;
    /// @notice Deposit with an EIP-2612 permit; a permit that someone else already used is not an error when the allowance suffices.
    function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s) external;
    /// @notice Pays free balance out. A registered provider's owner or its operator acting for it gets it at the payout address. Emits {Withdrawn}.
    function withdraw(uint256 amount, address to) external;
    /// @notice Sends a provider's free balance to its payout address. Owner or operator of the provider. Emits {Withdrawn}.
    function withdrawProvider(address provider, uint256 amount) external;

    // ----------------------------------------------------------------------------------------------------------- jobs

    /// @notice Locks `terms.maxPayment`, takes one slot of `provider`, snapshots its price. Emits {JobPosted}.
    /// @dev Reverts the registry's error for the refusal ({IProviderRegistry-ProviderAtCapacity} when full), {JobAlreadyPosted},
    /// {InsufficientBalance}, {PaymentBelowMinimum}, {UnsignedLimitAbovePayment}, {DeadlineOutOfBounds}, or Pausable's EnforcedPause.
    function postJob(address provider, JobTerms calldata terms) external returns (bytes32 jobId);

    /// @notice Gives the job to the first of 1..8 candidates that can take it. Emits {JobPosted}.
    /// @dev Reverts {NoProviderAvailable} with a reason per candidate.
    function postJobAny(address[] calldata candidates, JobTerms calldata terms)
        external
        returns (bytes32 jobId, address provider);

    /// @notice The provider shows on chain that it works: a pending cancel request falls, none can be made any more. Owner or operator.
    /// @dev From `Open` or `CancelRequested` (also after the response window while nobody finalised). Emits {JobAcknowledged}.
    function ackJob(bytes32 jobId) external;

    /// @notice Pays `price x tokens`, rounded down, at most `maxPayment`; refunds the rest; frees the slot. Emits {JobCompleted}.
    /// @dev The provider's owner or operator only, with and without a receipt: a client that could send its own receipt would
    /// settle a delivered job at zero. With the client's receipt the payment is exact; with an empty signature it is at most
    /// `unsignedLimit`.
    /// From any non-terminal status, also after the deadline while nobody expired it.
    function completeJob(bytes32 jobId, Usage calldata usage, bytes32 responseHash, bytes calldata clientSignature)
        external;

    /// @notice Completes up to MAX_BATCH jobs; a bad item emits {CompletionSkipped} and harms no other.
    function completeJobs(Completion[] calldata items) external;

    /// @notice The provider gives the job back: full refund, no penalty, slot freed. Owner or operator. Emits {JobDeclined}.
    function declineJob(bytes32 jobId) external;

    /// @notice The client wants its money back. From `Open`, not before `ackWindow` after posting. Emits {JobCancelRequested}.
    function requestCancel(bytes32 jobId) external;

    /// @notice Refunds a job whose cancel request was not answered within `responseWindow`. Anyone. Emits {JobCancelled}.
    function finalizeCancel(bytes32 jobId) external;

    /// @notice Refunds every job whose deadline has passed and frees its slot; skips the others ({ExpirySkipped}). Anyone; at most MAX_BATCH.
    function expireJobs(bytes32[] calldata jobIds) external;

    /// @notice Refunds an undelivered job after its deadline and burns the provider's collateral for it. The client only.
    /// @dev Requires the operator's or owner's EIP-712 `Acknowledgement` of this job. Emits {JobSlashed}.
    function slashJob(bytes32 jobId, bytes32 requestHash, bytes calldata acknowledgement) external;

    // ---------------------------------------------------------------------------------------------------------- owner

    /// @notice Stops new posts; no exit is ever stopped. Contract owner only.
    function pause() external;
    function unpause() external;

    // ---------------------------------------------------------------------------------------------------------- views

    function jobIdOf(address client, uint256 nonce) external view returns (bytes32);
    function jobOf(bytes32 jobId) external view returns (JobView memory);
    function accountOf(address account) external view returns (AccountView memory);
    /// @notice Payment for a usage under a record's prices before the cap at maxPayment, rounded down.
    function paymentFor(uint48 offeringId, Usage calldata usage) external view returns (uint256);
    function paused() external view returns (bool);
    function token() external view returns (address);
    function registry() external view returns (address);
    function minPayment() external view returns (uint96);
    function minDuration() external view returns (uint40);
    function maxDuration() external view returns (uint40);
    function ackWindow() external view returns (uint40);
    function responseWindow() external view returns (uint40);
    function MAX_CANDIDATES() external view returns (uint256);
    function MAX_BATCH() external view returns (uint256);
    /// @notice EIP-712 `Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)`.
    function RECEIPT_TYPEHASH() external view returns (bytes32);
    /// @notice EIP-712 `Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)`.
    function ACKNOWLEDGEMENT_TYPEHASH() external view returns (bytes32);
    function version() external view returns (string memory);
}

// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title IRefusalErrors
/// @notice Errors with which {IProviderRegistry-acquireSlots} refuses. A market lets them through, so they belong to the ABI of
/// both contracts. In the order in which they are checked. The last is that of {IProviderRegistry-releaseSlotsAndSlash}.
interface IRefusalErrors {
    /// @notice The caller may not take slots.
    error NotMarket(address caller);
    /// @notice The market takes no new slots for now; every exit stays open.
    error EnforcedPause();
    /// @notice No such provider.
    error ProviderNotRegistered(address provider);
    /// @notice The provider has deactivated itself, or was deactivated by a slash that took it below the minimum stake.
    error ProviderInactive(address provider);
    /// @notice The provider has not shown itself since `lastSeen`, longer than `timeToLive` ago.
    error ProviderStale(address provider, uint40 lastSeen, uint256 timeToLive);
    /// @notice The provider does not offer this model now.
    error OfferingNotFound(address provider, bytes32 modelKey);
    /// @notice One of the two prices is above what the caller accepts.
    error PriceAboveLimit(
        address provider, uint96 inputPrice, uint96 outputPrice, uint96 maxInputPrice, uint96 maxOutputPrice
    );
    /// @notice The slots asked for would take `openJobs` past the cap.
    error ProviderAtCapacity(address provider, uint32 openJobs, uint32 maxConcurrentJobs);
    /// @notice Less stake than needed: `stake` is what is there (not held by open jobs, not unbonding).
    error InsufficientStake(address provider, uint256 stake, uint256 required);
    /// @notice More slots given back than are taken, or none.
    error SlotUnderflow(address provider, uint32 openJobs, uint32 count);
}

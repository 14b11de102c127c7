// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev Account that acts for a provider, in one slot, so that one read tells who a caller acts for and under which number.
struct Principal {
    // slot 0
    address owner;
    uint32 providerId;
}

/// @dev What a provider asks for a model now: all that a post needs, in one slot.
struct CurrentOffering {
    // slot 0
    uint48 offeringId;
    uint96 inputPrice;
    uint96 outputPrice;
}

/// @dev One offering at one price, never changed. The provider is its number and not its address, so that all that a
/// settlement needs is in one slot.
struct OfferingRecord {
    // slot 0
    uint96 inputPrice;
    uint96 outputPrice;
    uint32 providerId;
    uint32 contextLength;
    // slot 1
    bytes32 modelKey;
}

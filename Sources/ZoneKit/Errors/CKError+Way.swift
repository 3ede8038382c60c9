extension CKError {
    /// The relay may have carried out what was asked, or may not have.
    package var leavesOutcomeOpen: Bool {
        code == .serverResponseLost || code == .operationCancelled || userInfo[Self.outcomeIsOpenKey] != nil
    }

    /// Where the code does not say so.
    static let outcomeIsOpenKey = "ZonecastOutcomeIsOpen"

    /// As the answer to a whole request: nothing was said about what it carries, only that the way to the relay, or the relay
    /// itself, is out of order.
    ///
    /// A proxy whose backend is down, a hotel's page, a damaged store, a container that is not there. What was to be sent stays.
    package var isOfWay: Bool {
        switch code {
        case .internalError, .serverRejectedRequest, .badContainer, .missingEntitlement, .incompatibleVersion: true
        default: false
        }
    }
}

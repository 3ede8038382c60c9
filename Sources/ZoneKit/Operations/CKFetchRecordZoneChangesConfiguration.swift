public import Foundation

/// The options for fetching one zone, also available as `CKFetchRecordZoneChangesOperation.ZoneConfiguration`.
///
/// Not nested in the operation, because Foundation on Linux cannot archive nested classes.
open class CKFetchRecordZoneChangesConfiguration: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked for the same reason as the operation: one thread configures it before it starts.

    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of records per response; 0 for the relay's maximum.
    open var resultsLimit: Int
    /// The fields to fetch; `nil` for all fields.
    open var desiredKeys: [CKRecord.FieldKey]?

    /// Creates options that fetch all fields from the beginning.
    public override convenience init() { self.init(previousServerChangeToken: nil, resultsLimit: nil) }

    /// Creates options for fetching a zone.
    ///
    /// - Parameters:
    ///   - previousServerChangeToken: The token of the previous fetch.
    ///   - resultsLimit: The maximum number of records per response.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    public init(
        previousServerChangeToken: CKServerChangeToken? = nil,
        resultsLimit: Int? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil
    ) {
        self.previousServerChangeToken = previousServerChangeToken
        self.resultsLimit = resultsLimit ?? 0
        self.desiredKeys = desiredKeys
    }

    /// Creates options from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        previousServerChangeToken = coder.object(CKServerChangeToken.self, "Token")
        resultsLimit = coder.number("Limit")
        desiredKeys = coder.text("Keys").map { $0.split(separator: "\n").map(String.init) }
    }

    /// Whether the class supports secure coding: always `true`.
    open class var supportsSecureCoding: Bool { true }

    /// Encodes the token, the limit and the fields.
    open func encode(with coder: NSCoder) {
        if let previousServerChangeToken { coder.encode(previousServerChangeToken, forKey: "Token") }
        coder.encode(resultsLimit, forKey: "Limit")
        if let desiredKeys { coder.encode(desiredKeys.joined(separator: "\n") as NSString, forKey: "Keys") }
    }

    /// Returns an independent copy.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKFetchRecordZoneChangesConfiguration(
            previousServerChangeToken: previousServerChangeToken,
            resultsLimit: resultsLimit,
            desiredKeys: desiredKeys
        )
    }
}

/// The name of the options before Swift 4.2.
public typealias CKFetchRecordZoneChangesOptions = CKFetchRecordZoneChangesConfiguration

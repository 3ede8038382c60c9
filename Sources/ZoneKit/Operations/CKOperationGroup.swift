public import Foundation
import Synchronization

/// A set of operations with a common purpose.
///
/// The relay's log shows its name.
public final class CKOperationGroup: NSObject, NSSecureCoding, @unchecked Sendable {
    // Unchecked because of the configuration, which is set before the operations start; the mutex protects everything
    // else.

    /// The amount of data that the app expects to transfer.
    public enum TransferSize: Int, Sendable {
        /// Unknown.
        case unknown = 0
        /// Less than a megabyte.
        case kilobytes = 1
        /// Up to ten megabytes.
        case megabytes = 2
        /// Up to a hundred megabytes.
        case tensOfMegabytes = 3
        /// Up to a gigabyte.
        case hundredsOfMegabytes = 4
        /// Up to ten gigabytes.
        case gigabytes = 5
        /// Up to a hundred gigabytes.
        case tensOfGigabytes = 6
        /// More than a hundred gigabytes.
        case hundredsOfGigabytes = 7
    }

    private struct State {
        var configuration = CKOperationConfiguration()
        var name: String?
        var quantity = 0
        var sendSize = TransferSize.unknown
        var receiveSize = TransferSize.unknown
    }

    /// The unique ID of the group.
    public let operationGroupID: String
    private let state = Mutex(State())

    /// Creates a group with a new ID.
    public override init() { operationGroupID = UUID().uuidString }

    /// Creates a group from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let id = coder.text("GroupID") else { return nil }
        operationGroupID = id
        super.init()
        name = coder.text("Name")
        quantity = coder.number("Quantity")
        expectedSendSize = TransferSize(rawValue: coder.number("SendSize")) ?? .unknown
        expectedReceiveSize = TransferSize(rawValue: coder.number("ReceiveSize")) ?? .unknown
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the ID, the name and the expected sizes.
    public func encode(with coder: NSCoder) {
        coder.encode(operationGroupID as NSString, forKey: "GroupID")
        if let name { coder.encode(name as NSString, forKey: "Name") }
        coder.encode(quantity, forKey: "Quantity")
        coder.encode(expectedSendSize.rawValue, forKey: "SendSize")
        coder.encode(expectedReceiveSize.rawValue, forKey: "ReceiveSize")
    }

    // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
    /// The default configuration of the group's operations.
    ///
    /// It is never `nil`; CloudKit declares the same type.
    public var defaultConfiguration: CKOperation.Configuration! {
        get { state.withLock { Kept($0.configuration) }.value }
        set {
            let copy = Kept(newValue?.independentCopy() ?? CKOperationConfiguration())
            state.withLock { $0.configuration = copy.value }
        }
    }

    /// A readable name for the purpose of the group.
    public var name: String? {
        get { state.withLock { $0.name } }
        set { state.withLock { $0.name = newValue } }
    }

    /// The number of items that the app expects to process.
    public var quantity: Int {
        get { state.withLock { $0.quantity } }
        set { state.withLock { $0.quantity = newValue } }
    }

    /// The amount of data that the app expects to send.
    public var expectedSendSize: TransferSize {
        get { state.withLock { $0.sendSize } }
        set { state.withLock { $0.sendSize = newValue } }
    }

    /// The amount of data that the app expects to receive.
    public var expectedReceiveSize: TransferSize {
        get { state.withLock { $0.receiveSize } }
        set { state.withLock { $0.receiveSize = newValue } }
    }

    /// The ID and the name on one line, without characters that are not allowed in a header.
    var label: String {
        let readable = (name ?? "").unicodeScalars.filter { $0.isASCII && $0.value >= 32 && $0.value < 127 }
        let text = String(String.UnicodeScalarView(readable.prefix(100)))
        return text.isEmpty ? operationGroupID : "\(operationGroupID) \(text)"
    }
}

/// Carries a configuration across the lock.
private struct Kept: @unchecked Sendable {
    // Unchecked: a configuration must be used by one thread at a time.
    let value: CKOperationConfiguration
    init(_ value: CKOperationConfiguration) { self.value = value }
}

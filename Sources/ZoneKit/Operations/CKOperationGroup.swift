public import Foundation
import Synchronization

/// Several operations that serve one purpose, under one name in the relay's log.
public final class CKOperationGroup: NSObject, NSSecureCoding, @unchecked Sendable {
    // Unchecked for the configuration inside, which is set up before the operations begin; all else is in the Mutex.

    /// How much a program expects to move.
    public enum TransferSize: Int, Sendable {
        /// It does not say.
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
        /// More than that.
        case hundredsOfGigabytes = 7
    }

    private struct State {
        var configuration = CKOperationConfiguration()
        var name: String?
        var quantity = 0
        var sendSize = TransferSize.unknown
        var receiveSize = TransferSize.unknown
    }

    /// Unlike that of every other group.
    public let operationGroupID: String
    private let state = Mutex(State())

    /// Makes a group of a number of its own.
    public override init() { operationGroupID = UUID().uuidString }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let id = coder.text("GroupID") else { return nil }
        operationGroupID = id
        super.init()
        name = coder.text("Name")
        quantity = coder.number("Quantity")
        expectedSendSize = TransferSize(rawValue: coder.number("SendSize")) ?? .unknown
        expectedReceiveSize = TransferSize(rawValue: coder.number("ReceiveSize")) ?? .unknown
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes number, name and what is expected.
    public func encode(with coder: NSCoder) {
        coder.encode(operationGroupID as NSString, forKey: "GroupID")
        if let name { coder.encode(name as NSString, forKey: "Name") }
        coder.encode(quantity, forKey: "Quantity")
        coder.encode(expectedSendSize.rawValue, forKey: "SendSize")
        coder.encode(expectedReceiveSize.rawValue, forKey: "ReceiveSize")
    }

    // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
    /// What the group's operations use that have no configuration of their own; CloudKit declares it so.
    public var defaultConfiguration: CKOperation.Configuration! {
        get { state.withLock { Kept($0.configuration) }.value }
        set {
            let copy = Kept(newValue?.independentCopy() ?? CKOperationConfiguration())
            state.withLock { $0.configuration = copy.value }
        }
    }

    /// What the group is for; for people.
    public var name: String? {
        get { state.withLock { $0.name } }
        set { state.withLock { $0.name = newValue } }
    }

    /// How many things the program expects to work on.
    public var quantity: Int {
        get { state.withLock { $0.quantity } }
        set { state.withLock { $0.quantity = newValue } }
    }

    /// How much the program expects to send.
    public var expectedSendSize: TransferSize {
        get { state.withLock { $0.sendSize } }
        set { state.withLock { $0.sendSize = newValue } }
    }

    /// How much the program expects to receive.
    public var expectedReceiveSize: TransferSize {
        get { state.withLock { $0.receiveSize } }
        set { state.withLock { $0.receiveSize = newValue } }
    }

    /// Number and name on one line, without anything a header could not hold.
    var label: String {
        let readable = (name ?? "").unicodeScalars.filter { $0.isASCII && $0.value >= 32 && $0.value < 127 }
        let text = String(String.UnicodeScalarView(readable.prefix(100)))
        return text.isEmpty ? operationGroupID : "\(operationGroupID) \(text)"
    }
}

/// Carries a configuration over the edge of a lock.
private struct Kept: @unchecked Sendable {
    // Unchecked: the configuration itself is made for one thread at a time.
    let value: CKOperationConfiguration
    init(_ value: CKOperationConfiguration) { self.value = value }
}

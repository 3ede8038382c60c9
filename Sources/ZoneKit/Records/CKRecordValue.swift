public import Foundation
package import Records

/// A type that the fields of a record can store.
///
/// Fields store strings, integers, floating-point numbers, Boolean values (as 0 and 1), dates (in arrays with a
/// precision of milliseconds), data, references, locations, assets, and arrays of one of these types. Reading a field
/// returns `String`, `NSNumber`, `Date`, `Data`, `CKRecord.Reference`, `CLLocation`, `CKAsset` or an array of one of
/// them; casts such as `as? Int` work on numbers.
///
/// Don't add conformances to other types: saving a record with such a value fails with `invalidArguments`, as does
/// saving a number or a date that is infinite or NaN, a whole number above `Int64.max`, or a date whose milliseconds
/// since 1970 do not fit `Int64`.
public protocol CKRecordValueProtocol {}

/// The older name of `CKRecordValueProtocol`; here they are the same protocol.
public typealias CKRecordValue = CKRecordValueProtocol

/// The name of `CKRecordValue` in Apple's Swift interface; here they are the same protocol.
public typealias __CKRecordObjCValue = CKRecordValueProtocol

extension String: CKRecordValueProtocol {}
extension Bool: CKRecordValueProtocol {}
extension Int: CKRecordValueProtocol {}
extension Int8: CKRecordValueProtocol {}
extension Int16: CKRecordValueProtocol {}
extension Int32: CKRecordValueProtocol {}
extension Int64: CKRecordValueProtocol {}
extension UInt: CKRecordValueProtocol {}
extension UInt8: CKRecordValueProtocol {}
extension UInt16: CKRecordValueProtocol {}
extension UInt32: CKRecordValueProtocol {}
extension UInt64: CKRecordValueProtocol {}
extension Float: CKRecordValueProtocol {}
extension Double: CKRecordValueProtocol {}
extension CGFloat: CKRecordValueProtocol {}
extension Date: CKRecordValueProtocol {}
extension Data: CKRecordValueProtocol {}
extension NSString: CKRecordValueProtocol {}
extension NSNumber: CKRecordValueProtocol {}
extension NSDate: CKRecordValueProtocol {}
extension NSData: CKRecordValueProtocol {}
extension NSArray: CKRecordValueProtocol {}
extension CKReference: CKRecordValueProtocol {}
/// For reading only: no custom field can contain an ID, but some system fields do.
extension CKRecordID: CKRecordValueProtocol {}
extension CLLocation: CKRecordValueProtocol {}
extension CKAsset: CKRecordValueProtocol {}
extension Array: CKRecordValueProtocol where Element: CKRecordValueProtocol {}

extension FieldValue {
    /// Converts an app's value to its wire form; `nil` if no field can contain it.
    ///
    /// - Parameters:
    ///   - value: The value that the app has set.
    ///   - zone: The zone of the record that contains the value; references are relative to it.
    ///   - elementType: The element type of an empty array that has no type of its own.
    package init?(_ value: Any, in zone: CKRecordZone.ID, elementType: FieldType.Scalar = .string) {
        switch value {
        case let text as String: self = .string(text)
        case let date as Date: self = .timestamp(Timestamp(date))
        case let data as Data: self = .bytes([UInt8](data))
        case let reference as CKRecord.Reference: self = .reference(reference.value(in: zone))
        case let place as CLLocation: self = .location(place.value)
        case let asset as CKAsset: self = .asset(asset.wire)
        case let number as NSNumber:
            guard let field = FieldValue(number) else { return nil }
            self = field
        case let elements as [Any]:
            guard let list = FieldValue(elements, in: zone, emptyType: Self.elementType(of: value) ?? elementType)
            else {
                return nil
            }
            self = list
        default: return nil
        }
    }

    /// Whether JSON can represent all numbers in the value; it has no infinity and no NaN.
    private var isFinite: Bool {
        switch self {
        case .double(let number): number.isFinite
        case .location(let place): place.latitude.isFinite && place.longitude.isFinite
        case .list(_, let elements): elements.allSatisfy(\.isFinite)
        default: true
        }
    }

    /// Describes why the relay would reject the value, as part of an error message; `nil` if it would not.
    ///
    /// Encrypted values must be checked here, because the relay cannot read them.
    var unsendableReason: String? {
        if !isFinite { return "number that is not finite" }
        return isOnEarth ? nil : "place without \(Location.bounds)"
    }

    /// Describes why no field can store an app's value, or one of its elements; part of an error message.
    ///
    /// Returns `nil` for all other values.
    static func unsupportedReason(_ value: Any) -> String? {
        switch value {
        case is String: nil
        case let date as Date: unsupportedReason(date)
        case let place as CLLocation: unsupportedReason(place.timestamp)
        case let number as NSNumber: FieldValue(number) == nil ? "whole number above \(Int64.max)" : nil
        case let elements as [Any]: elements.lazy.compactMap(unsupportedReason).first
        default: nil
        }
    }

    private static func unsupportedReason(_ date: Date) -> String? {
        Timestamp(exactly: date) == nil ? "date that is not finite, or beyond the range of a field" : nil
    }

    /// Creates the value of a number; `nil` for an unsigned number above `Int64.max`.
    private init?(_ number: NSNumber) {
        switch UInt8(bitPattern: number.objCType.pointee) {
        case UInt8(ascii: "d"), UInt8(ascii: "f"): self = .double(number.doubleValue)
        case UInt8(ascii: "Q"):
            guard let whole = Int64(exactly: number.uint64Value) else { return nil }
            self = .int64(whole)
        default: self = .int64(number.int64Value)
        }
    }

    /// Creates a list.
    ///
    /// All elements must have one type; a mixture of integers and floating-point numbers becomes a list of `Double`.
    private init?(_ elements: [Any], in zone: CKRecordZone.ID, emptyType: FieldType.Scalar) {
        var values: [FieldValue] = []
        values.reserveCapacity(elements.count)
        for element in elements {
            guard let value = FieldValue(element, in: zone), case .scalar = value.type else { return nil }
            values.append(value)
        }
        guard case .scalar(let first)? = values.first?.type else {
            self = .list(emptyType, [])
            return
        }
        if values.allSatisfy({ $0.type == .scalar(first) }) {
            self = .list(first, values)
            return
        }
        let fractions = values.compactMap(\.asDouble)
        guard fractions.count == values.count else { return nil }
        self = .list(.double, fractions.map { .double($0) })
    }

    private var asDouble: Double? {
        switch self {
        case .int64(let number): Double(number)
        case .double(let number): number
        default: nil
        }
    }

    /// Returns whether a value is a list without an element type: an empty `NSArray` or an empty `[Any]`.
    static func isUntypedList(_ value: Any) -> Bool {
        guard let elements = value as? [Any], elements.isEmpty else { return false }
        return elementType(of: value) == nil
    }

    /// Returns the element type of a Swift array, which determines the type of an empty list.
    ///
    /// Compares the types and not the values, because an empty array can be cast to any array type.
    private static func elementType(of value: Any) -> FieldType.Scalar? {
        switch Swift.type(of: value) {
        case is [String].Type, is [NSString].Type: .string
        case is [Double].Type, is [Float].Type, is [CGFloat].Type: .double
        case is [Date].Type, is [NSDate].Type: .timestamp
        case is [Data].Type, is [NSData].Type: .bytes
        case is [CKRecord.Reference].Type: .reference
        case is [CLLocation].Type: .location
        case is [CKAsset].Type: .asset
        case is [Int].Type, is [Int8].Type, is [Int16].Type, is [Int32].Type, is [Int64].Type, is [Bool].Type,
            is [UInt].Type, is [UInt8].Type, is [UInt16].Type, is [UInt32].Type, is [UInt64].Type:
            .int64
        default: nil
        }
    }

    /// Returns the value as the app reads it; `nil` for assets, which need their source.
    package func object(in zone: CKRecordZone.ID) -> (any CKRecordValueProtocol)? {
        switch self {
        case .string(let text): text
        case .int64(let number): NSNumber(value: number)
        case .double(let number): NSNumber(value: number)
        case .timestamp(let timestamp): Date(timestamp)
        case .bytes(let bytes): Data(bytes)
        case .reference(let reference): CKRecord.Reference(reference, in: zone)
        case .location(let place): CLLocation(place)
        case .asset: nil
        case .list(let type, let values): Self.array(of: type, values, in: zone)
        }
    }

    private static func array(
        of type: FieldType.Scalar,
        _ values: [FieldValue],
        in zone: CKRecordZone.ID
    ) -> (any CKRecordValueProtocol)? {
        func all<Element>(_: Element.Type) -> [Element] { values.compactMap { $0.object(in: zone) as? Element } }
        return switch type {
        case .string: all(String.self)
        case .int64, .double: all(NSNumber.self)
        case .timestamp: all(Date.self)
        case .bytes: all(Data.self)
        case .reference: all(CKRecord.Reference.self)
        case .location: all(CLLocation.self)
        case .asset: nil
        }
    }
}

extension Timestamp {
    /// Creates a timestamp with millisecond precision, clamped to the range; also stores the exact seconds if they
    /// differ.
    package init(_ date: Date) {
        self = Timestamp(exactly: date) ?? Timestamp(milliseconds: date.timeIntervalSince1970 < 0 ? .min : .max)
    }

    /// Creates a timestamp with millisecond precision, and stores the exact seconds if they differ.
    ///
    /// Returns `nil` if the milliseconds since 1970 do not fit `Int64`.
    package init?(exactly date: Date) {
        guard let milliseconds = Int64(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else { return nil }
        self.init(milliseconds: milliseconds)
        if Date(self) != date { exactSeconds = date.timeIntervalSinceReferenceDate }
    }
}

extension Date {
    package init(_ timestamp: Timestamp) {
        if let seconds = timestamp.exactSeconds {
            self.init(timeIntervalSinceReferenceDate: seconds)
        } else {
            self.init(timeIntervalSince1970: Double(timestamp.milliseconds) / 1000)
        }
    }
}

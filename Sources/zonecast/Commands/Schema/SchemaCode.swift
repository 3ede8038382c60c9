import Records

/// Generates Swift for a schema.
///
/// The same schema gives the same text, whatever order it was declared in.
struct SchemaCode {
    /// The kind of code to generate.
    enum Form: String, CaseIterable, Sendable {
        /// Structs that wrap `CKRecord`, for `ZoneKit` or Apple's CloudKit.
        case records
        /// Plain structs and their model, for `ZoneMirror`.
        case mirror
    }

    enum Access: String, CaseIterable, Sendable {
        case `internal`, package, `public`

        var keyword: String { self == .internal ? "" : "\(rawValue) " }
    }

    private let schema: Schema
    private let source: String
    private let access: Access
    /// The module to import; Apple's `CloudKit` has the same type names as `ZoneKit`.
    private let module: String

    /// - Parameters:
    ///   - schema: The schema.
    ///   - source: The schema's origin, for the first line of the text.
    ///   - access: The access level of all declarations.
    ///   - module: The module to import, for the form `records`.
    init(_ schema: Schema, from source: String, access: Access, module: String = "ZoneKit") {
        self.schema = schema
        self.source = source
        self.access = access
        self.module = module
    }

    func text(_ form: Form) -> String {
        var lines = [
            "// Made from \(source) by: zonecast schema codegen --form \(form.rawValue)",
            "// What is changed here is lost when it is made again: change the schema.",
            "",
        ]
        switch form {
        case .records: records(&lines)
        case .mirror: mirror(&lines)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: Around records

    private func records(_ lines: inout [String]) {
        let open = access.keyword
        let types = named(withUsers: true)
        // Imports that nothing needs are warnings.
        guard !types.isEmpty else { return lines.append("// The schema declares no record types.") }
        lines += ["\(open)import Foundation", "\(open)import \(module)"]
        let typeNames = Self.typeNames(types.map(\.0))
        for (name, type) in types {
            let names = Self.unique(type.fields.keys, "Field", besides: Self.membersOfRecords)
            lines += [
                "", "/// A record of type `\(name)`: the record itself stays within reach, for what is not a field.",
            ]
            lines += ["\(access.keyword)struct \(typeNames[name] ?? name) {"]
            lines += [
                "    /// The type's name on the relay.", "    \(access.keyword)static let recordType = \"\(name)\"",
            ]
            lines += ["    /// What is saved and fetched.", "    \(access.keyword)let record: CKRecord", ""]
            lines += ["    /// Looks at a record of this type.", "    \(access.keyword)init(_ record: CKRecord) {"]
            lines += ["        self.record = record", "    }", "", "    /// A new record."]
            lines += ["    \(access.keyword)init(id: CKRecord.ID = CKRecord.ID(recordName: UUID().uuidString)) {"]
            lines += ["        record = CKRecord(recordType: Self.recordType, recordID: id)", "    }"]
            for (field, form) in Self.sorted(type.fields) {
                lines += property(field, form, named: Self.escaped(names[field] ?? field))
            }
            lines.append("}")
        }
    }

    private func property(_ field: String, _ form: RecordType.Field, named name: String) -> [String] {
        let place = form.isEncrypted ? "record.encryptedValues[\"\(field)\"]" : "record[\"\(field)\"]"
        return [
            "", "    /// `\(field)`, \(Self.words(form)).",
            "    \(access.keyword)var \(name): \(Self.recordValue(form.type))? {",
            "        get { \(place) }", "        nonmutating set { \(place) = newValue }", "    }",
        ]
    }

    private static func recordValue(_ type: FieldType) -> String {
        switch type {
        case .scalar(let scalar): recordValue(scalar)
        case .list(let scalar): "[\(recordValue(scalar))]"
        }
    }

    private static func recordValue(_ scalar: FieldType.Scalar) -> String {
        switch scalar {
        case .string: "String"
        case .int64: "Int64"
        case .double: "Double"
        case .timestamp: "Date"
        case .bytes: "Data"
        case .reference: "CKRecord.Reference"
        case .location: "CLLocation"
        case .asset: "CKAsset"
        }
    }

    // MARK: Mirrors

    private func mirror(_ lines: inout [String]) {
        let types = named(withUsers: false).filter { $0.0 != "CDMR" }
        // Record types that Core Data, or a mirror with default options, has created.
        let isPrefixed = !types.isEmpty && types.allSatisfy { $0.0.hasPrefix("CD_") }
        if !isPrefixed {
            lines += [
                "// Open the store with `usesPrefix = false` in its CloudOptions: these names are the relay's own.", "",
            ]
        }
        let open = access.keyword
        let entityNames = types.map { isPrefixed ? String($0.0.dropFirst(3)) : $0.0 }
        let typeNames = Self.typeNames(entityNames)
        let names = entityNames.map { typeNames[$0] ?? $0 }
        var structs: [String] = []
        var needsFoundation = false
        for (((name, type), entityName), own) in zip(zip(types, entityNames), names) {
            structs += [
                "", "/// An object, on the relay a record of type `\(name)`.", "\(open)struct \(own): SyncedRecord {",
            ]
            structs += ["    /// The record's name.", "    \(open)var id = RecordName()"]
            var encrypted: [String] = []
            // SQLite's columns have no case.
            var taken: Set<String> = ["id"]
            for (field, form) in Self.sorted(type.fields) {
                guard let column = Self.column(field, isPrefixed) else { continue }
                guard let value = Self.mirroredValue(form.type), Self.canBeColumn(column),
                    !isPrefixed || field.hasPrefix("CD_"), taken.insert(column.lowercased()).inserted
                else {
                    structs.append("    // \(field), \(Self.words(form)): not for mirrors, read it with ZoneKit.")
                    continue
                }
                needsFoundation = needsFoundation || Self.isFoundation(form.type)
                structs += [
                    "    /// `\(field)`, \(Self.words(form)).", "    \(open)var \(Self.escaped(column)): \(value)?",
                ]
                if form.isEncrypted { encrypted.append(column) }
            }
            structs += ["", "    /// An object that says nothing yet.", "    \(open)init() {}"]
            if own != entityName {
                structs += [
                    "", "    /// The record type's name.",
                    "    \(open)static var entityName: String { \"\(entityName)\" }",
                ]
            }
            if !encrypted.isEmpty {
                structs += [
                    "", "    /// What is encrypted.", "    \(open)static func describe(_ entity: inout Entity) {",
                ]
                structs += encrypted.map { "        entity.attribute(\"\($0)\") { $0.isEncrypted = true }" }
                structs.append("    }")
            }
            structs.append("}")
        }
        lines += (needsFoundation ? ["\(open)import Foundation"] : []) + ["\(open)import ZoneMirror"] + structs
        lines += ["", "extension MirrorModel {", "    /// Everything that the schema declares."]
        let list = names.map { "\($0).self" }.joined(separator: ", ")
        lines += ["    \(open)static var ofSchema: MirrorModel { MirrorModel(\(list)) }", "}"]
    }

    /// Returns the column of a field; `nil` for fields that mirrors write themselves.
    private static func column(_ field: String, _ isPrefixed: Bool) -> String? {
        let own = ["entityName", "moveReceipt", "editTimes"]
        let name = isPrefixed && field.hasPrefix("CD_") ? String(field.dropFirst(3)) : field
        return own.contains(name) || name.hasSuffix("_ckAsset") ? nil : name
    }

    private static func isFoundation(_ type: FieldType) -> Bool {
        type == .scalar(.timestamp) || type == .scalar(.bytes)
    }

    private static func mirroredValue(_ type: FieldType) -> String? {
        switch type {
        case .scalar(.string): "String"
        case .scalar(.int64): "Int"
        case .scalar(.double): "Double"
        case .scalar(.timestamp): "Date"
        case .scalar(.bytes): "Data"
        case .scalar, .list: nil
        }
    }

    // MARK: Names

    private func named(withUsers: Bool) -> [(String, RecordType)] {
        schema.types.filter { name, type in
            guard name == RecordType.usersName else { return !name.hasPrefix("cloudkit.") }
            return withUsers && type.fields.keys.contains { $0 != "roles" }
        }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private static func sorted(_ fields: [String: RecordType.Field]) -> [(String, RecordType.Field)] {
        fields.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns a field's type as text, like `encrypted STRING` or `list of INT64`.
    private static func words(_ form: RecordType.Field) -> String {
        let kind =
            switch form.type {
            case .scalar(let scalar): scalar.rawValue
            case .list(let scalar): "list of \(scalar.rawValue)"
            }
        return form.isEncrypted ? "encrypted \(kind)" : kind
    }

    /// Returns the Swift name of each record type: the first letter is a capital, and no standard type is shadowed.
    private static func typeNames(_ types: [String]) -> [String: String] {
        unique(types, "Record", besides: takenTypes) { name in
            let own = name.prefix(1).uppercased() + name.dropFirst()
            return isPlain(own) ? own : "Record" + own
        }
    }

    /// Returns a unique Swift name for each name, none of them in `taken`; on a collision it appends `ending`, then a number.
    ///
    /// Names that need no change come first, so a name that maps to one of them gets the ending.
    private static func unique(
        _ names: some Sequence<String>,
        _ ending: String,
        besides taken: Set<String>,
        _ wanted: (String) -> String = { $0 }
    ) -> [String: String] {
        var taken = taken
        var result: [String: String] = [:]
        let names = names.sorted()
        for name in names where wanted(name) == name && taken.insert(name).inserted { result[name] = name }
        for name in names where result[name] == nil {
            let own = wanted(name)
            var found = own
            var count = 0
            while !taken.insert(found).inserted {
                count += 1
                found = own + ending + (count > 1 ? String(count) : "")
            }
            result[name] = found
        }
        return result
    }

    /// Names that the generated structs around records declare or use themselves.
    private static let membersOfRecords: Set<String> = ["record", "recordType", "Self", "CKRecord", "UUID"]

    /// Returns whether a mirror's struct can have a property of this name; the name is the column's name too.
    private static func canBeColumn(_ name: String) -> Bool {
        // The default value of `id` uses `RecordName`, and the compiler declares `CodingKeys` in a codable struct.
        isPlain(name) && name != "RecordName" && name != "CodingKeys"
    }

    private static func isPlain(_ name: String) -> Bool {
        guard let first = name.utf8.first, first == 0x5F || (first | 0x20) >= 0x61 else { return false }
        return name.utf8.allSatisfy { $0 == 0x5F || (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) }
    }

    private static func escaped(_ name: String) -> String { keywords.contains(name) ? "`\(name)`" : name }

    private static let keywords: Set<String> = [
        "associatedtype", "class", "deinit", "enum", "extension", "fileprivate", "func", "import", "init", "inout",
        "internal", "let", "open", "operator", "private", "precedencegroup", "protocol", "public", "rethrows", "static",
        "struct", "subscript", "typealias", "var", "break", "case", "catch", "continue", "default", "defer", "do",
        "else",
        "fallthrough", "for", "guard", "if", "in", "repeat", "return", "throw", "switch", "where", "while", "Any", "as",
        "await", "false", "is", "nil", "self", "Self", "super", "throws", "true", "try", "Type", "Protocol",
    ]

    /// Names that a struct would take from Swift's standard library, or from the text itself: its file and the rest of its
    /// module could not use those any more.
    private static let takenTypes = Set(
        """
        Type Protocol Self Any
        Swift Foundation ZoneKit CloudKit ZoneMirror
        Date Data UUID URL CKRecord CKAsset CLLocation RecordName SyncedRecord Entity MirrorModel Attribute Relationship
        Actor AdditiveArithmetic AnyActor AnyBidirectionalCollection AnyClass AnyCollection AnyHashable AnyIndex
        AnyIterator AnyKeyPath AnyObject AnyRandomAccessCollection AnySequence Array ArraySlice AsyncIteratorProtocol
        AsyncSequence AsyncStream AsyncThrowingStream AutoreleasingUnsafeMutablePointer BidirectionalCollection
        BinaryFloatingPoint BinaryInteger BitwiseCopyable Bool CancellationError CaseIterable Character
        CheckedContinuation Clock ClosedRange Codable CodingKey CodingKeyRepresentable CodingUserInfoKey Collection
        CollectionDifference CollectionOfOne CommandLine Comparable ContiguousArray ContinuousClock Copyable
        CustomDebugStringConvertible CustomReflectable CustomStringConvertible Decodable Decoder DecodingError
        DefaultIndices DefaultStringInterpolation Dictionary DiscardingTaskGroup DiscontiguousSlice Double
        DropFirstSequence DropWhileSequence Duration DurationProtocol EmptyCollection Encodable Encoder EncodingError
        EnumeratedSequence Equatable Error Escapable Executor ExecutorJob ExpressibleByArrayLiteral
        ExpressibleByBooleanLiteral ExpressibleByDictionaryLiteral ExpressibleByExtendedGraphemeClusterLiteral
        ExpressibleByFloatLiteral ExpressibleByIntegerLiteral ExpressibleByNilLiteral ExpressibleByStringInterpolation
        ExpressibleByStringLiteral ExpressibleByUnicodeScalarLiteral FixedWidthInteger FlattenSequence Float Float16
        Float32 Float64 Float80 FloatingPoint FloatingPointClassification FloatingPointRoundingRule FloatingPointSign
        GlobalActor Hashable Hasher Identifiable IndexingIterator InlineArray InstantProtocol Int Int128 Int16 Int32 Int64
        Int8 IteratorProtocol IteratorSequence JoinedSequence KeyPath KeyValuePairs KeyedDecodingContainer
        KeyedDecodingContainerProtocol KeyedEncodingContainer KeyedEncodingContainerProtocol LazyCollection
        LazyCollectionProtocol LazySequence LazySequenceProtocol LosslessStringConvertible MainActor ManagedBuffer
        ManagedBufferPointer MemoryLayout Mirror MirrorPath MutableCollection MutableRawSpan MutableSpan Never Numeric
        ObjectIdentifier OpaquePointer OptionSet Optional OutputRawSpan OutputSpan PartialKeyPath PartialRangeFrom
        PartialRangeThrough PartialRangeUpTo PrefixSequence RandomAccessCollection RandomNumberGenerator Range
        RangeExpression RangeReplaceableCollection RangeSet RawRepresentable RawSpan ReferenceWritableKeyPath Repeated
        Result ReversedCollection SIMD SIMD16 SIMD2 SIMD3 SIMD32 SIMD4 SIMD64 SIMD8 SIMDMask SIMDScalar SIMDStorage
        Sendable SendableMetatype Sequence SerialExecutor Set SetAlgebra SignedInteger SignedNumeric
        SingleValueDecodingContainer SingleValueEncodingContainer Slice Span StaticBigInt StaticString StrideThrough
        StrideTo Strideable String StringInterpolationProtocol StringProtocol Substring SuspendingClock
        SystemRandomNumberGenerator Task TaskExecutor TaskGroup TaskLocal TaskPriority TextOutputStream
        TextOutputStreamable ThrowingDiscardingTaskGroup ThrowingTaskGroup UInt UInt128 UInt16 UInt32 UInt64 UInt8 UTF16
        UTF32 UTF8 UnboundedRange UnfoldSequence Unicode UnicodeCodec UnkeyedDecodingContainer UnkeyedEncodingContainer
        Unmanaged UnownedJob UnownedSerialExecutor UnownedTaskExecutor UnsafeBufferPointer UnsafeContinuation
        UnsafeCurrentTask UnsafeMutableBufferPointer UnsafeMutablePointer UnsafeMutableRawBufferPointer
        UnsafeMutableRawPointer UnsafePointer UnsafeRawBufferPointer UnsafeRawPointer UnsignedInteger VaListBuilder Void
        WritableKeyPath Zip2Sequence
        """.split(whereSeparator: \.isWhitespace).map(String.init)
    )
}

#if Postgres
    /// A parameter of a statement, sent in PostgreSQL's binary format; `nil` is NULL.
    package enum PostgresValue: Sendable {
        case int(Int64?)
        case bool(Bool?)
        case text(String?)
        case bytes([UInt8]?)
        /// For `= ANY($1)` and `unnest($1)`, like the following.
        case ints([Int64?])
        case bools([Bool])
        case texts([String?])
        case blobs([[UInt8]?])

        /// A number that PostgreSQL stores as a signed one with the same bits.
        package static func unsigned(_ value: UInt64) -> PostgresValue { .int(Int64(bitPattern: value)) }

        package static func unsigneds(_ values: some Sequence<UInt64>) -> PostgresValue {
            .ints(values.map { Int64(bitPattern: $0) })
        }

        /// The type's number in PostgreSQL's catalogue.
        var type: UInt32 {
            switch self {
            case .int: 20
            case .bool: 16
            case .text: 25
            case .bytes: 17
            case .ints: 1016
            case .bools: 1000
            case .texts: 1009
            case .blobs: 1001
            }
        }
    }

    /// The parameters of one statement as libpq takes them.
    struct PostgresParameters {
        private(set) var types: [UInt32] = []
        private var bytes: [UInt8] = []
        /// Where each value begins; -1 for NULL.
        private var starts: [Int] = []
        private var lengths: [Int32] = []

        init(_ values: [PostgresValue]) {
            for value in values {
                types.append(value.type)
                let start = bytes.count
                let isNull = !write(value)
                // A value must have an address, even an empty one at the end.
                starts.append(isNull ? -1 : start)
                lengths.append(Int32(bytes.count - start))
            }
            bytes.append(0)
        }

        func withPointers<Result>(
            _ body: (
                _ values: UnsafePointer<UnsafePointer<CChar>?>?, _ lengths: UnsafePointer<Int32>?,
                _ formats: UnsafePointer<Int32>?
            ) -> Result
        ) -> Result {
            bytes.withUnsafeBytes { bytes in
                let values = starts.map { start in
                    start < 0 ? nil : bytes.baseAddress?.advanced(by: start).assumingMemoryBound(to: CChar.self)
                }
                let formats = [Int32](repeating: 1, count: values.count)
                return values.withUnsafeBufferPointer { values in
                    lengths.withUnsafeBufferPointer { lengths in
                        formats.withUnsafeBufferPointer {
                            body(values.baseAddress, lengths.baseAddress, $0.baseAddress)
                        }
                    }
                }
            }
        }

        /// - Returns: `false` for NULL.
        private mutating func write(_ value: PostgresValue) -> Bool {
            switch value {
            case .int(let value): write(value) { $0.writeInteger($1) }
            case .bool(let value): write(value) { $0.bytes.append($1 ? 1 : 0) }
            case .text(let value): write(value) { $0.write(text: $1) }
            case .bytes(let value): write(value) { $0.bytes.append(contentsOf: $1) }
            case .ints(let values): write(values, of: 20) { $0.writeInteger($1) }
            case .bools(let values): write(values, of: 16) { $0.bytes.append($1 ? 1 : 0) }
            case .texts(let values): write(values, of: 25) { $0.write(text: $1) }
            case .blobs(let values): write(values, of: 17) { $0.bytes.append(contentsOf: $1) }
            }
        }

        private mutating func write<Value>(_ value: Value?, _ body: (inout Self, Value) -> Void) -> Bool {
            guard let value else { return false }
            body(&self, value)
            return true
        }

        /// Writes an array: dimensions, whether it has NULLs, the type, length and first index, then each element with its
        /// length.
        private mutating func write<Value>(
            _ values: [Value?],
            of type: Int32,
            _ body: (inout Self, Value) -> Void
        ) -> Bool {
            writeInteger(values.isEmpty ? 0 : 1 as Int32)
            writeInteger(values.contains { $0 == nil } ? 1 : 0 as Int32)
            writeInteger(type)
            guard !values.isEmpty else { return true }
            writeInteger(Int32(values.count))
            writeInteger(1 as Int32)
            for value in values {
                let place = bytes.count
                writeInteger(-1 as Int32)
                guard let value else { continue }
                body(&self, value)
                let length = Int32(bytes.count - place - 4)
                withUnsafeBytes(of: length.bigEndian) { bytes.replaceSubrange(place..<place + 4, with: $0) }
            }
            return true
        }

        /// Writes a text; its NULs, which PostgreSQL's texts cannot have, as the replacement character.
        ///
        /// Requests are checked before anything of them is stored, but a look-up may come first: it then finds nothing.
        private mutating func write(text: String) {
            let start = bytes.count
            bytes.append(contentsOf: text.utf8)
            guard bytes[start...].contains(0) else { return }
            let replaced = text.utf8.flatMap { $0 == 0 ? Array("\u{FFFD}".utf8) : [$0] }
            bytes.replaceSubrange(start..., with: replaced)
        }

        private mutating func writeInteger(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
        }
    }
#endif

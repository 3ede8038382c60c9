import Testing
import Wire

@Suite struct JSONDocumentTests {
    static let good = [
        "{}", "[]", " [ ] ", "null", "true", "-0", "0.5e-7", "\"\"", #""\u00e9\ud83d\ude00\n""#,
        #"{"a":{"b":[1,{"c":null}]}}"#,
        "\"\u{7F}é漢😀\"", "[1,2,3]", #"{"":1,"\u0001":2}"#,
    ]

    @Test(arguments: good) func validJSONIsAccepted(_ text: String) throws {
        _ = try JSONDocument(parsing: Array(text.utf8))
    }

    static let bad: [String] = [
        "", " ", "{", "}", "[", "]", "[1,]", "[,1]", "{,}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{a:1}"#, "01", "-",
        "1.",
        ".5", "1e", "1e+", "+1", "0x1", "NaN", "Infinity", "tru", "nul", "truex", "\"", "\"\\\"", #""\x""#, #""\u12""#,
        #""\ud800""#, #""\udc00""#, #""\ud800\u0041""#, "\"\n\"", "\"\u{0}\"", "1 2", "{} {}", "[1 2]",
        #"{"a":1 "b":2}"#,
        #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#, "'a'", "[1]x", "\u{FEFF}{}",
    ]

    @Test(arguments: bad) func invalidJSONIsRefused(_ text: String) {
        #expect(throws: JSONError.self) { try JSONDocument(parsing: Array(text.utf8)) }
    }

    static let badBytes: [[UInt8]] = [
        [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
        [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22],
        [0x22, 0xE2, 0x82, 0x22], [0x22, 0xE0, 0x80, 0x80, 0x22],
    ]

    @Test(arguments: badBytes) func invalidUTF8IsRefusedEvenInUnreadValues(_ bytes: [UInt8]) {
        #expect(throws: JSONError.self) { try JSONDocument(parsing: bytes) }
    }

    @Test func limitsAreEnforced() throws {
        let deep = String(repeating: "[", count: 32) + String(repeating: "]", count: 32)
        _ = try JSONDocument(parsing: Array(deep.utf8))
        #expect(throws: JSONError.self) { try JSONDocument(parsing: Array("[\(deep)]".utf8)) }
        let digits = String(repeating: "1", count: 64)
        _ = try JSONDocument(parsing: Array(digits.utf8))
        #expect(throws: JSONError.self) { try JSONDocument(parsing: Array("\(digits)1".utf8)) }
        let many = "[" + String(repeating: "1,", count: 99_999) + "1]"
        _ = try JSONDocument(parsing: Array(many.utf8))
        #expect(throws: JSONError.self) { try JSONDocument(parsing: Array("[\(many)]".utf8)) }
        let members = "{" + (0..<300).map { "\"k\($0)\":1" }.joined(separator: ",") + ",\"k7\":1}"
        #expect(throws: JSONError.self) { try JSONDocument(parsing: Array(members.utf8)) }
    }

    /// Names are compared by bytes, in small and in large objects; by Unicode's rules, more texts would be equal.
    @Test(arguments: [2, 100]) func namesAreComparedByteForByte(_ count: Int) throws {
        let others = (2..<max(count, 2)).map { ",\"k\($0)\":1" }.joined()
        let root = try JSONDocument(parsing: Array("{\"\u{E9}\":1,\"e\u{301}\":2\(others)}".utf8)).root
        #expect(try root.members().count == count)
        // U+212A, the Kelvin sign, looks like a K and is canonically equivalent to it.
        let kelvin = try JSONDocument(parsing: Array(#"{"desired\u212Aeys":1}"#.utf8)).root
        #expect(!kelvin.hasMember("desiredKeys"))
    }

    @Test func valuesAreReadByType() throws {
        let root = try JSONDocument(
            parsing: Array(#"{"i":-12,"d":1.5,"s":"a\"\u00e9\ud83d\ude00","t":true,"n":null,"l":[1,2]}"#.utf8)
        ).root
        #expect(try root.required("i").int64() == -12)
        #expect(try root.required("d").double() == 1.5)
        #expect(try root.required("s").string() == "a\"é😀")
        #expect(try root.required("t").bool())
        #expect(root["n"] == nil && root.hasMember("n"))
        #expect(try root.required("l").elements().map { try $0.int64() } == [1, 2])
    }

    static let errors: [(text: String, path: String)] = [
        (#"{"a":[{"b":1},{"b":"x"}]}"#, "a[1].b"), (#"{"a":[{"b":1},{"b":1e400}]}"#, "a[1].b"),
    ]

    @Test(arguments: errors.indices) func errorsNameTheLocation(_ row: Int) throws {
        let (text, path) = Self.errors[row]
        let elements = try JSONDocument(parsing: Array(text.utf8)).root.required("a").elements()
        let error = #expect(throws: JSONError.self) { try elements[1].required("b").double() }
        #expect(error?.path == path)
        #expect(error?.description == "'\(path)' must be a number.")
    }

    @Test func missingMembersAreNamed() throws {
        let root = try JSONDocument(parsing: Array(#"{"a":[{}]}"#.utf8)).root
        let error = #expect(throws: JSONError.self) { try root.required("a").elements()[0].required("b") }
        #expect(error?.description == "'a[0].b' is required.")
    }

    @Test func writtenTextIsReadBack() throws {
        var writer = JSONWriter()
        writer.object {
            $0.member("text", "a\"b\\c\n\u{1}é😀")
            $0.member("least", Int64.min)
            $0.key("number")
            $0.double(0.1)
            $0.key("list")
            $0.array([1, 2, 3]) { $0.int($1) }
        }
        let root = try JSONDocument(parsing: writer.bytes).root
        #expect(try root.required("text").string() == "a\"b\\c\n\u{1}é😀")
        #expect(try root.required("least").int64() == .min)
        #expect(try root.required("number").double() == 0.1)
        #expect(try root.required("list").elements().count == 3)
    }

    /// The writer processes eight bytes at a time, so every position among them is tested.
    @Test func specialCharactersAreEscapedAtEveryPosition() throws {
        for awkward in ["\"", "\\", "\n", "\u{1}", "\u{1F}", "\0", "é", "\u{7F}", " ", "!"] {
            for place in 0..<20 {
                let text = String(repeating: "a", count: place) + awkward + String(repeating: "b", count: 20 - place)
                var writer = JSONWriter()
                writer.string(text)
                let read = try JSONDocument(parsing: [UInt8(ascii: "[")] + writer.bytes + [UInt8(ascii: "]")])
                #expect(try read.root.elements().map { try $0.string() } == [text])
            }
        }
    }

    /// Small and large objects are searched in different ways.
    @Test(arguments: [1, 2, 12, 13, 31, 32, 33, 34, 200]) func aNameMayAppearOnce(_ count: Int) throws {
        let names = (0..<count).map { "name \($0)" }
        func text(_ names: [String]) -> [UInt8] {
            Array("{\(names.map { "\"\($0)\":{}" }.joined(separator: ","))}".utf8)
        }
        _ = try JSONDocument(parsing: text(names))
        for twice in [0, count / 2, count - 1] {
            for again in [
                names[twice],
                names[twice].split(separator: "n", omittingEmptySubsequences: false).joined(separator: #"\u006e"#),
            ] {
                #expect(throws: JSONError.self) { try JSONDocument(parsing: text(names + [again])) }
            }
        }
        #expect(throws: JSONError.self) { try JSONDocument(parsing: text(names + ["", ""])) }
    }

    /// The parser finds the end of a string, and invalid bytes, eight bytes at a time.
    @Test func aStringMayEndAtEveryPosition() throws {
        for length in 0..<40 {
            for after in ["", "]", " ", "       ]"] {
                let plain = String(repeating: "a", count: length)
                let isWhole = after.hasSuffix("]")
                let text = Array("[\"\(plain)\"\(after)".utf8)
                #expect(((try? JSONDocument(parsing: text)) != nil) == isWhole)
                guard isWhole else { continue }
                #expect(try JSONDocument(parsing: text).root.elements().map { try $0.string() } == [plain])
                for place in 0..<length {
                    var spoilt = text
                    spoilt[2 + place] = 0x1F
                    let error = #expect(throws: JSONError.self) { try JSONDocument(parsing: spoilt) }
                    #expect(error == JSONError(.syntax("a control character inside a string"), offset: 2 + place))
                    spoilt[2 + place] = 0x80
                    let other = #expect(throws: JSONError.self) { try JSONDocument(parsing: spoilt) }
                    #expect(other == JSONError(.syntax("invalid UTF-8"), offset: 2 + place))
                }
            }
        }
    }

    static let integers: [(text: String, number: Int64?)] = [
        ("0", 0), ("-0", 0), ("-1", -1), ("9223372036854775807", .max), ("-9223372036854775808", .min),
        ("9223372036854775808", nil), ("-9223372036854775809", nil), ("99999999999999999999", nil),
        ("18446744073709551616", nil), ("1.0", nil), ("1e2", nil),
    ]

    @Test(arguments: integers.indices) func integersHave64Bits(_ row: Int) throws {
        let (text, number) = Self.integers[row]
        #expect((try? JSONDocument(parsing: Array(text.utf8)).root.int64()) == number)
    }
}

/// Finished JSON is passed on without copying its memory.
@Suite struct JSONTextTests {
    @Test func theTextHasTheBytesThatWereWritten() {
        var writer = JSONWriter(reserving: 64)
        writer.array(0..<1_000) { $0.int($1) }
        let copy = writer.bytes
        let text = writer.finish()
        #expect(text.count == copy.count)
        #expect(text.bytes == copy)
        #expect(text.withBytes { Array($0) } == copy)
    }

    @Test func anUnusedWriterYieldsAnEmptyText() {
        let text = JSONWriter().finish()
        #expect(text.bytes.isEmpty && text.withBytes { $0.isEmpty })
    }
}

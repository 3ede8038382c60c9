import Records
import Testing

@Suite struct Base64Tests {
    /// RFC 4648, section 10, and the last two characters of the alphabet.
    static let pairs: [(bytes: [UInt8], text: String)] = [
        ([], ""), (Array("f".utf8), "Zg=="), (Array("fo".utf8), "Zm8="), (Array("foo".utf8), "Zm9v"),
        (Array("foob".utf8), "Zm9vYg=="), (Array("fooba".utf8), "Zm9vYmE="), (Array("foobar".utf8), "Zm9vYmFy"),
        ([0xFB, 0xFF, 0xBF], "+/+/"), ([0, 0, 0], "AAAA"), ([0xFF], "/w=="), ([0, 0x7F], "AH8="),
    ]

    @Test(arguments: pairs.indices) func encodedBytesAreDecoded(_ row: Int) {
        let (bytes, text) = Self.pairs[row]
        #expect(Base64.encode(bytes) == text)
        #expect(Base64.encode(AnyCollection(bytes)) == text)
        #expect(Base64.length(of: bytes.count) == text.utf8.count)
        #expect(Base64.decode(text) == bytes)
        #expect(Base64.decode(AnyCollection(Array(text.utf8))) == bytes)
    }

    static let bad = [
        "Z", "-_-_", "Z===", "Z g=", "Zg", "Zg=", "Zg===", "====", "=Zg=", "Z=g=", "Zh==", "Zm9=", "Zm9-", "Zm9v\n",
        "Zg==Zg==", "Zm 9",
    ]

    @Test(arguments: bad) func invalidBase64IsRefused(_ text: String) {
        #expect(Base64.decode(text) == nil)
        #expect(Base64.decode(AnyCollection(Array(text.utf8))) == nil)
    }
}

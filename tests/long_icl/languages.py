"""Small data sets in three languages: questions of customers about 20 things, in six forms each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from StaICC import Dataset


@dataclass(frozen=True)
class Language:
    """The words of a language, and what its texts consist of."""

    things: Mapping[str, str]
    """A label for each thing."""
    forms: tuple[str, ...]
    instruction: str
    text_prefix: str
    label_prefix: str
    alphabet: tuple[str, str]
    """The first and the last character of most of its letters."""

    def rows(self) -> list[tuple[str, str]]:
        return [(form.format(thing), label) for form in self.forms for thing, label in self.things.items()]

    def dataset(self, name: str) -> Dataset:
        template = {
            "instruction": self.instruction,
            "input_text_prefixes": [self.text_prefix],
            "label_prefix": self.label_prefix,
        }
        return Dataset.from_rows(self.rows(), name=name, template=template)


CHINESE = Language(
    {
        "银行卡": "卡片",
        "密码": "密钥",
        "账单": "开票",
        "包裹": "物流",
        "退货": "退换",
        "钥匙": "门锁",
        "护照": "证件",
        "机票": "航班",
        "行李": "箱包",
        "酒店": "住宿",
        "手机": "通讯",
        "电脑": "数码",
        "网络": "宽带",
        "水管": "维修",
        "电费": "能源",
        "医生": "健康",
        "学费": "教育",
        "食谱": "餐饮",
        "音乐": "娱乐",
        "天气": "气象",
    },
    (
        "请问我的{}在哪里？",
        "我想知道关于{}的事情，谢谢。",
        "昨天我的{}出了问题，怎么办？",
        "你们能帮我看一下{}吗？",
        "为什么还没有{}的消息？",
        "我朋友说这里可以问{}。",
        "今天早上我又找不到{}了。",
        "能不能给我讲讲{}？",
        "我对{}很不满意。",
        "明天之前我需要{}。",
        "有没有人懂{}？",
        "我该向谁打听{}？",
    ),
    "请判断下面文本的类别。",
    "文本：",
    "类别：",
    ("\u4e00", "\u9fff"),
)
ARABIC = Language(
    {
        "البطاقة": "بطاقات",
        "كلمة السر": "أمان",
        "الفاتورة": "فواتير",
        "الطرد": "شحن",
        "المرتجع": "إرجاع",
        "المفتاح": "أقفال",
        "الجواز": "وثائق",
        "التذكرة": "طيران",
        "الحقيبة": "أمتعة",
        "الفندق": "إقامة",
        "الهاتف": "اتصالات",
        "الحاسوب": "أجهزة",
        "الشبكة": "إنترنت",
        "الأنبوب": "صيانة",
        "الكهرباء": "طاقة",
        "الطبيب": "صحة",
        "الرسوم": "تعليم",
        "الوصفة": "طعام",
        "الأغنية": "ترفيه",
        "المطر": "طقس",
    },
    (
        "أين أجد {} من فضلك؟",
        "أريد أن أعرف شيئا عن {} اليوم.",
        "حدثت مشكلة في {} أمس، ماذا أفعل؟",
        "هل يمكنكم مساعدتي في {} الآن؟",
        "لماذا لم يصل خبر عن {} حتى الآن؟",
        "قال لي صديقي أن أسأل هنا عن {}.",
        "هذا الصباح لم أجد {} مرة أخرى.",
        "هل تشرح لي أمر {} من فضلك؟",
        "أنا غير راض عن {} هذه المرة.",
        "أحتاج إلى {} قبل الغد.",
        "هل هنا من يفهم في {}؟",
        "من الذي أسأله عن {} هنا؟",
    ),
    "حدد فئة النص التالي. ",
    "النص: ",
    "الفئة: ",
    ("\u0600", "\u06ff"),
)
GERMAN = Language(
    {
        "meine Karte": "Zahlungsmittel",
        "das Passwort": "Sicherheit",
        "die Rechnung": "Abrechnung",
        "das Paket": "Versand",
        "der Umtausch": "Rückgabe",
        "der Schlüssel": "Türschloss",
        "der Ausweis": "Dokumente",
        "das Ticket": "Flüge",
        "der Koffer": "Gepäck",
        "das Hotel": "Übernachtung",
        "das Handy": "Telefonie",
        "der Rechner": "Geräte",
        "das Netz": "Internet",
        "das Rohr": "Reparatur",
        "der Strom": "Energie",
        "der Arzt": "Gesundheit",
        "die Gebühr": "Bildung",
        "das Rezept": "Küche",
        "das Lied": "Unterhaltung",
        "der Regen": "Wetter",
    },
    (
        "Wo ist {}, bitte?",
        "Ich möchte heute etwas über das Thema wissen: {}.",
        "Gestern gab es ein Problem, und zwar: {}. Was soll ich tun?",
        "Können Sie mir helfen? Es geht um Folgendes: {}.",
        "Warum höre ich nichts Neues? Ich meine: {}.",
        "Ein Freund sagte, ich könne hier fragen: {}?",
        "Heute früh war es wieder so weit: {}.",
        "Würden Sie mir das erklären: {}?",
        "Damit bin ich sehr unzufrieden: {}.",
        "Bis morgen brauche ich das: {}.",
        "Kennt sich hier jemand aus? Stichwort: {}.",
        "Wen kann ich hier danach fragen: {}?",
    ),
    "Bestimme die Kategorie des Textes. ",
    "Text: ",
    "Kategorie: ",
    ("A", "\u017f"),
)
LANGUAGES = {"chinese": CHINESE, "arabic": ARABIC, "german": GERMAN}

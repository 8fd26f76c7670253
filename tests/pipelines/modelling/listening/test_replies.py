"""Replies as models write them, in five languages: a choice is a number that is named as one or stands alone."""

import pytest

from ctxr.pipelines.modelling.chat import read_text

CHOSEN = {
    "3.0": 3,
    '{"picture": 3.0}': 3,
    '{"picture": "3.0"}': 3,
    "The answer is 3.0.": 3,
    "The description has 3 dogs, so my answer is 5.": 5,
    "The man with jersey number 7 is only in picture 4.": 4,
    "The man with jersey number 7 is at the back.\n\n4": 4,
    "Number 7, because the dog sits.": 7,
    "7 (two people, one car)": 7,
    "7 because 2 of them are dark": 7,
    "I cannot be certain, but picture 3 fits best.": 3,
    "I'm sorry for the delay. The answer is 6": 6,
    "I can't see the dog in picture 3, so I choose picture 5.": 5,
    "You can't miss it: picture 8": 8,
    "Bild 3": 3,
    "Die Antwort ist 4.": 4,
    "Antwort: Bild Nr. 6": 6,
    "Von den 10 Bildern passt Bild 2 am besten.": 2,
    "Nicht Bild 3, sondern Bild 5": 5,
    "Bild 3 passt nicht, Bild 5 schon.": 5,
    "Ich sehe 3 Hunde. Ich entscheide mich für Bild 9.": 9,
    "L'image 3": 3,
    "La réponse est 4.": 4,
    "Réponse : l’image n° 6": 6,
    "Parmi les 10 images, l'image 2 convient.": 2,
    "Ce n'est pas l'image 3 mais l'image 5.": 5,
    "Il y a 3 chiens, donc je choisis l'image 9.": 9,
    "Imagen 3": 3,
    "La respuesta es 4.": 4,
    "De las 10 imágenes, elijo la imagen 2.": 2,
    "No es la imagen 3, sino la imagen 5.": 5,
    "Hay 3 perros: imagen número 9": 9,
    "图片3": 3,
    "答案是4。": 4,
    "我选择第6张图片。": 6,
    "10张图片中，第2张最符合描述。": 2,
    "不是图3，而是图5。": 5,
    "描述中有3只狗，所以选9": 9,
}
UNREADABLE = [
    "The description has 3 dogs and a cat.",
    "The player wears jersey number 7.",
    "Bus no. 5 is red.",
    "There are 2 people and 1 car in the middle.",
    "Die Beschreibung nennt 3 Hunde.",
    "Der Spieler mit der Nummer 7 steht hinten.",
    "Il y a 3 chiens et un chat.",
    "Le joueur porte le maillot numéro 7.",
    "Hay 3 perros y un gato.",
    "El jugador lleva el número 7.",
    "描述中有3只狗。",
    "球衣号码是7的人在后面。",
]
REFUSED = [
    "I'm sorry, but I can't help with identifying people in picture 3.",
    "As an AI, I cannot see images 1 to 10.",
    "I won't identify the person with number 7.",
    "I am unable to view the pictures.",
    "Es tut mir leid, aber ich kann bei Bild 3 nicht helfen.",
    "Dabei kann ich leider nicht helfen.",
    "Désolé, je ne peux pas identifier la personne de l'image 3.",
    "Lo siento, no puedo ayudar con la imagen 3.",
    "抱歉，我无法识别图片3中的人物。",
    "对不起，我不能回答。",
]


MORE = {
    "My guess: 4": 4,
    "I'd go with 4": 4,
    "The best matching picture is number 4.": 4,
    "The picture that matches is 4": 4,
    "I believe the correct one is 4": 4,
    "回答：4": 4,
    "C'est la 4": 4,
    "I choose picture 3 as it shows the dog.": 3,
    "The answer is 3 dogs": None,
    "I pick the 13 dogs": None,
    "It is 3 dogs on a lawn.": None,
    "3 is the number of dogs": None,
}
"""Replies that a reviewer wrote who did not know the rule."""


def test_sixty_replies_are_here() -> None:
    assert len(CHOSEN) + len(UNREADABLE) + len(REFUSED) == 60


@pytest.mark.parametrize(("text", "number"), MORE.items())
def test_replies_of_somebody_else_are_read_too(text: str, number: int | None) -> None:
    assert read_text(text, 10).number == number


@pytest.mark.parametrize(("text", "number"), CHOSEN.items())
def test_a_number_that_is_named_or_stands_alone_is_the_choice(text: str, number: int) -> None:
    reply = read_text(text, 10)
    assert (reply.outcome, reply.number) == ("chosen", number)


@pytest.mark.parametrize(
    ("text", "outcome"), [*((text, "unreadable") for text in UNREADABLE), *((text, "refused") for text in REFUSED)]
)
def test_any_other_number_is_no_choice_and_a_refusal_is_one(text: str, outcome: str) -> None:
    assert read_text(text, 10) == (outcome, None)
